"""The operator on a cluster: the package that talks to a Kubernetes API server.

It reads pipelines and their runs, asks `icdc_operator.core` what comes next, and carries that out.
`icdc_operator.manifests` builds the objects of a run. Floors, each importing only those below:

    main, process, options    the process and its flags
    loop                      watch, queue, reconcile
    runs                      objects of a cluster to observations, actions to requests
    heads                     current snapshots of tables, read from their catalogs
    kube                      the API server: requests, errors, kinds
"""
