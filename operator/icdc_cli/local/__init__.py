"""One host in place of a cluster: a state directory for the API server, child processes for pods.

The reconcile core (`decide`, `status`) is the operator's own and knows nothing of this package.
"""
