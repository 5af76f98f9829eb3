"""Network namespaces on a bridge of this host, between which packets can be dropped.

The host reaches every namespace at all times, so that a test still speaks to a node that its peers
no longer hear. Needs root on Linux. It must not know what runs in a namespace.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from icdc_testing.user_programs.installing import install_packages

_PREFIX = "icdcn"
_NETWORKS = 250


class Namespaces:
    """A context manager: `count` namespaces, numbered from 0, removed at its end."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._network = -1

    def __enter__(self) -> Self:
        # Here and not in set-up: few tests have namespaces, and most hosts have the programs.
        if not all(map(shutil.which, ("ip", "iptables"))):
            problem = install_packages("iproute2", "iptables")
            assert not problem, problem
        _remove_abandoned()
        self._network = _take_bridge()
        try:
            for number in range(self.count):
                self._make(number)
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the namespaces and the bridge."""
        _remove(f"{_PREFIX}{self._network}")

    def address(self, number: int) -> str:
        """Return the address of a namespace, which the host reaches."""
        return f"10.213.{self._network}.{number + 2}"

    def enter(self, number: int) -> list[str]:
        """Return what stands before a command that is to run in a namespace."""
        return ["ip", "netns", "exec", self._format_name(number)]

    def cut(self, one: int, others: Iterable[int]) -> None:
        """Drop every packet between `one` and the `others`, in both directions and silently."""
        for other in others:
            for chain, side in (("INPUT", "--source"), ("OUTPUT", "--destination")):
                rule = ["-A", chain, side, self.address(other), "-j", "DROP"]
                _run(*self.enter(one), "iptables", "-w", *rule)

    def heal(self) -> None:
        """Let every packet through again."""
        for number in range(self.count):
            _run(*self.enter(number), "iptables", "-w", "-F")

    def _make(self, number: int) -> None:
        name, bridge = self._format_name(number), f"{_PREFIX}{self._network}"
        outside = f"{bridge}-{number}"
        _run("ip", "netns", "add", name)
        _run("ip", "link", "add", outside, "type", "veth", "peer", "eth0", "netns", name)
        _run("ip", "link", "set", outside, "master", bridge, "up")
        _run("ip", "-n", name, "link", "set", "lo", "up")
        _run("ip", "-n", name, "address", "add", f"{self.address(number)}/24", "dev", "eth0")
        _run("ip", "-n", name, "link", "set", "eth0", "up")

    def _format_name(self, number: int) -> str:
        return f"{_PREFIX}{self._network}-{number}"


def _take_bridge() -> int:
    """Make a bridge that no other test process has, and return its number."""
    for network in range(_NETWORKS):
        bridge = f"{_PREFIX}{network}"
        made = subprocess.run(
            ["ip", "link", "add", bridge, "type", "bridge"], capture_output=True, check=False
        )
        if made.returncode == 0:
            _run("ip", "link", "set", bridge, "alias", str(os.getpid()))
            _run("ip", "address", "add", f"10.213.{network}.1/24", "dev", bridge)
            _run("ip", "link", "set", bridge, "up")
            return network
    raise AssertionError(f"no bridge could be made: {made.stderr.decode()}")


def _remove_abandoned() -> None:
    """Remove what test processes left that were killed."""
    for entry in Path("/sys/class/net").glob(f"{_PREFIX}*"):
        if not (entry / "bridge").exists():
            continue
        owner = (entry / "ifalias").read_text(encoding="utf-8").strip()
        # Without one its process is just about to write it.
        if owner and not Path(f"/proc/{owner}").exists():
            _remove(entry.name)


def _remove(bridge: str) -> None:
    # By themselves: a namespace whose sockets still wait for their peers keeps them for minutes.
    for entry in Path("/sys/class/net").glob(f"{bridge}-*"):
        _run("ip", "link", "delete", entry.name)
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    for line in listed.stdout.splitlines():
        name = line.split()[0]
        if name.rpartition("-")[0] == bridge:
            _run("ip", "netns", "delete", name)
    _run("ip", "link", "delete", bridge)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
