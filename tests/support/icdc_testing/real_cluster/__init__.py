"""A Kubernetes cluster of one node, made of processes of this host, and the product on it."""
