"""The Debian packages of a node. Asks `host_packages`, which CI and image builds ask too."""

import os

from icdc_api.errors import Submission
from icdc_testing.user_programs.installing import install_packages

_NEEDED = ("containerd", "containernetworking-plugins", "iproute2", "iptables", "mount", "runc")


def ensure() -> None:
    """Return once all are installed; Submission where they are not and may not be."""
    if os.geteuid() != 0:
        raise Submission(
            "A node needs root: it makes network namespaces, mounts and cgroups. Without it, name "
            "another cluster's kubeconfig in ICDC_TEST_KUBECONFIG."
        )
    problem = install_packages(*_NEEDED)
    if problem:
        raise Submission(f"The packages of a node are missing: {problem}")
