"""The operator on a cluster: the one package that speaks to a Kubernetes API server.

It reads pipelines and their runs, has `icdc_operator.core` say what comes next, and carries that
out. What a run's objects look like is `icdc_operator.manifests`' business. `process` puts the
parts together: `kube` (the API server), `runs` (objects), `heads` (catalogs), `loop` (the work).
"""
