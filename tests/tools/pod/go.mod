// Built by tests/support/support_kube_binaries.py.
module tools/pod

go 1.25.0
