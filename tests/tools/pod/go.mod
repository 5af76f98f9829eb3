// Built by icdc_testing.kube.binaries.
module tools/pod

go 1.25.0
