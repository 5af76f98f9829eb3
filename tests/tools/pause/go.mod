// Built by icdc_testing.kube.binaries.
module tools/pause

go 1.25.0
