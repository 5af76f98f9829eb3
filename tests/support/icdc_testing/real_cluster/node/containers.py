"""The container runtime of a node: containerd, with a store of its own beside any other's.

Knows containerd's configuration and its client `ctr`, nothing of Kubernetes.
"""

import json
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from icdc_api.errors import Submission
from icdc_testing.real_cluster.host import layout, programs
from icdc_testing.real_cluster.host.layout import NodePaths
from icdc_testing.real_cluster.host.programs import Starter

PAUSE_IMAGE = "localhost/iceberg-cdc-operator/pause:1"
NAMESPACE = "k8s.io"
"""Where containerd keeps what the kubelet asked for."""

_PLUGINS = "/usr/lib/cni"
_START_SECONDS = 60.0
_COMMAND_SECONDS = 600.0


def start(starter: Starter, at: NodePaths) -> None:
    """Return once containerd answers; containers of an earlier cluster are removed.

    Submission where it does not start, or is not installed.
    """
    path = shutil.which("containerd")
    if path is None:
        raise Submission("containerd is not on PATH.")
    config = at.folder / "containerd.toml"
    config.write_text(_build_config(at), encoding="utf-8")
    _write_network(at)
    program = starter.start(Path(path), ["--config", str(config)], name=at.programs[1])
    program.wait_until(
        lambda: _call_ctr(at, "version").returncode == 0, "ctr answers", seconds=_START_SECONDS
    )
    forget(at)


def forget(at: NodePaths) -> None:
    """Remove all containers, which must have ended, and what they wrote."""
    names = run_ctr(at, "containers", "list", "--quiet").split()
    if names:
        _call_ctr(at, "tasks", "delete", "--force", *names)
        run_ctr(at, "containers", "delete", *names)


def run_ctr(at: NodePaths, *arguments: str) -> str:
    """Run containerd's client and return its output; Submission with its complaint if it fails."""
    done = _call_ctr(at, *arguments)
    if done.returncode != 0:
        raise Submission(f"`ctr {' '.join(arguments)}` failed: {done.stderr.strip()[-2000:]}")
    return done.stdout


def list_shims(at: NodePaths) -> list[int]:
    """Return the processes between containerd and its containers; they outlive it."""
    return list(_find_processes("containerd-shim", str(at.socket)))


def list_shim_sockets(at: NodePaths) -> list[Path]:
    """Return the sockets of the shims, which are outside of our folder."""
    address_files = at.containers.glob("io.containerd.runtime.v2.task/*/*/address")
    return [Path(file.read_text().strip().removeprefix("unix://")) for file in address_files]


def _call_ctr(at: NodePaths, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["ctr", "--address", str(at.socket), "--namespace", NAMESPACE, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_COMMAND_SECONDS,
        check=False,
    )


def _find_processes(program: str, argument: str) -> Iterable[int]:
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = line.read_text(encoding="utf-8", errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if Path(words[0]).name.startswith(program) and argument in words:
            yield int(line.parent.name)


def _build_config(at: NodePaths) -> str:
    return f"""\
version = 2
root = "{at.images}"
state = "{at.containers}"
oom_score = 0
[grpc]
  address = "{at.socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{at.folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # Without CAP_SYS_RESOURCE, as in a container, the score cannot be lowered.
  restrict_oom_score_adj = true
  disable_apparmor = true
  netns_mounts_under_state_dir = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{_PLUGINS}"
  conf_dir = "{at.folder}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false
  Root = "{at.folder}/runc"
"""


def _write_network(at: NodePaths) -> None:
    """Give every pod an address on the bridge; there is no way to the outside."""
    first, last = at.node.pods
    addresses = {"rangeStart": first, "rangeEnd": last}
    bridge = {
        "type": "bridge",
        "bridge": layout.BRIDGE,
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(at.folder / "addresses"),
            "ranges": [[{**addresses, "subnet": layout.PODS, "gateway": layout.ADDRESS}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    network = {"cniVersion": "0.4.0", "name": at.node.cgroup, "plugins": [bridge]}
    folder = at.folder / "cni"
    folder.mkdir(exist_ok=True)
    (folder / "10-bridge.conflist").write_text(json.dumps(network), encoding="utf-8")


def kill_shims(at: NodePaths) -> None:
    """End the shims, and remove the sockets that they leave behind."""
    sockets = list_shim_sockets(at)
    programs.kill(list_shims(at))
    for path in sockets:
        path.unlink(missing_ok=True)
