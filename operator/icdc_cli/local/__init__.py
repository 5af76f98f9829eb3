"""One host in place of a cluster: a state directory for the API server, child processes for pods.

    in a cluster                         here                      module
    PIPELINE.yaml applied to the API     read with ${ENV}          resource
    status, compare-and-set              file, lock of one runner  state_dir, files
    reconcile loop on watches            loop on polls             runner
    SparkApplication, driver's pod       child processes           application, runs, processes
    events and states of pods            exit code, end of a log   failures
    mounted Secrets                      a directory               secrets
    a run for a question                 the same, without status  ask

So what is tried on a laptop is what a cluster does: other hands, the same decisions.
The reconcile core (`decide`, `status`) is the operator's own and knows nothing of this package.
"""
