"""The Debian packages of a node. Asks `host_packages`, which CI and image builds ask too."""

import os
import subprocess
import sys

from icdc_api.errors import Submission
from icdc_testing import ROOT

_INSTALLER = ROOT / "tools" / "images" / "host_packages.py"
_NEEDED = ("containerd", "containernetworking-plugins", "iproute2", "iptables", "mount", "runc")


def ensure() -> None:
    """Return once all are installed; Submission where they are not and may not be."""
    if os.geteuid() != 0:
        raise Submission(
            "A node needs root: it makes network namespaces, mounts and cgroups. Without it, name "
            "another cluster's kubeconfig in ICDC_TEST_KUBECONFIG."
        )
    command = [sys.executable, str(_INSTALLER), *_NEEDED]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise Submission("The packages of a node are missing.")
