"""Environment variables that say where the API server is. Imports no client library."""

KUBECONFIG = "KUBECONFIG"
"""Paths of kubeconfig files, separated as in PATH."""

IN_CLUSTER = "KUBERNETES_SERVICE_HOST"
"""Set by the kubelet in every pod."""
