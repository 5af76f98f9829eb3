"""The bridge that the pods of a cluster hang on, and what the kernel needs to forward for them.

Knows iproute2 and sysctls. What it changes on the host, `remove` changes back.
"""

import json
import subprocess
from pathlib import Path

from icdc_api.errors import Submission
from icdc_testing.real_cluster.host import layout
from icdc_testing.real_cluster.host.layout import ClusterNode, ClusterPaths

_SYSCTLS = (
    Path("/proc/sys/net/ipv4/ip_forward"),
    # Packets between two pods pass iptables as well: else answers of a Service do not come back.
    Path("/proc/sys/net/bridge/bridge-nf-call-iptables"),
)
_SAVED = "sysctls.json"


def make(where: ClusterPaths) -> None:
    """Add the bridge with the node's address. Submission where the host does not allow it."""
    try:
        before = {str(path): path.read_text(encoding="utf-8").strip() for path in _SYSCTLS}
    except FileNotFoundError as exc:
        raise Submission(
            f"{exc.filename} is missing: load the kernel module br_netfilter (modprobe)."
        ) from exc
    (where.run / _SAVED).write_text(json.dumps(before), encoding="utf-8")
    _set(dict.fromkeys(before, "1"))
    run_ip("link", "add", layout.BRIDGE, "type", "bridge")
    length = layout.PODS.rpartition("/")[2]
    run_ip("address", "add", f"{layout.ADDRESS}/{length}", "dev", layout.BRIDGE)
    run_ip("link", "set", layout.BRIDGE, "up")


def remove(where: ClusterPaths) -> None:
    """Take the bridge away, if it is there, and give the kernel its settings back."""
    if exists():
        run_ip("link", "delete", layout.BRIDGE)
    saved = where.run / _SAVED
    if saved.exists():
        _set(json.loads(saved.read_text(encoding="utf-8")))


def add_address(node: ClusterNode) -> None:
    """Give the bridge the address of another node. Submission where it has it."""
    run_ip("address", "add", f"{node.address}/32", "dev", layout.BRIDGE)


def remove_address(node: ClusterNode) -> None:
    """Take it away again, where it is there."""
    shown = run_ip("-4", "address", "show", "dev", layout.BRIDGE)
    if f"inet {node.address}/32" in shown:
        run_ip("address", "delete", f"{node.address}/32", "dev", layout.BRIDGE)


def exists() -> bool:
    """Return whether the bridge exists."""
    return Path("/sys/class/net", layout.BRIDGE).exists()


def run_ip(*arguments: str) -> str:
    """Run `ip` of iproute2 and return its output; Submission with its complaint if it fails."""
    command = ["ip", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise Submission(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout


def _set(values: dict[str, str]) -> None:
    for name, value in values.items():
        Path(name).write_text(value, encoding="utf-8")
