// Built by tests/support/support_kube_binaries.py.
module tools/pause

go 1.25.0
