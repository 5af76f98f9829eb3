"""The control plane and a node of the test cluster: kubelet, containers and images."""
