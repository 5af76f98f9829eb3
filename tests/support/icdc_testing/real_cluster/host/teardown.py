"""Takes a cluster down, and says what it could not remove.

Works from what is on disk and in the kernel alone: the process that brought the cluster up may
have been killed. What it ends is thrown away, so nothing gets time to end well.

The order:
1. spark-operator, so that it starts no driver again;
2. on each node the kubelet, so that it starts no container again; then its pods, and containerd;
3. all other programs of the cluster, kube-proxy included, which would write its rules again;
4. rules of iptables, the bridge, mounts, cgroups;
5. the folder that names the programs, then files outside of it.
"""

import shlex
import shutil
import subprocess
from pathlib import Path

from icdc_api.errors import IcdcError, Submission
from icdc_testing.kube import binaries
from icdc_testing.real_cluster.host import cgroups, layout, network, programs
from icdc_testing.real_cluster.host.layout import ClusterNode, ClusterPaths, NodePaths
from icdc_testing.real_cluster.node import containers

_POD_LOGS = Path("/var/log/containers")
_CNI_RESULTS = Path("/var/lib/cni/results")
_CHAIN_PREFIX = "KUBE-"


def take_down(where: ClusterPaths) -> None:
    """Return when nothing of the cluster is left but its stores of images.

    Submission names what is left.
    """
    if not where.run.exists():
        return
    programs.end(where, ["spark-operator"])
    for node in layout.NODES:
        _end_node(where.locate(node))
    programs.end(where)
    _clean_iptables(where)
    network.remove(where)
    _unmount(where.run)
    for node in layout.NODES:
        cgroups.remove(node)
    shutil.rmtree(where.run)
    _remove_fixed()
    left = list_leftovers(where)
    if left:
        raise Submission("The cluster is down, but these are left: " + "; ".join(left))


def remove(at: NodePaths) -> None:
    """Return when nothing of that node is left but its store of images; its cluster goes on.

    Knows nothing of what the API server says of the node. Also after a crash.
    """
    if not at.folder.exists():
        return
    _end_node(at)
    _unmount(at.folder)
    network.remove_address(at.node)
    cgroups.remove(at.node)
    shutil.rmtree(at.folder)
    _remove_fixed()


def remove_images(where: ClusterPaths) -> None:
    """Remove the stores of images of a cluster that is down.

    They take 5 GB with the images of both builders. The next run has other images as a rule, and
    loading into an empty store takes it two seconds more.
    """
    for node in layout.NODES:
        folder = where.locate(node).images
        if folder.is_dir():
            shutil.rmtree(folder)


def list_leftovers(where: ClusterPaths) -> list[str]:
    """List in words what a cluster that is down has left behind."""
    names = []
    for node in layout.NODES:
        if shims := containers.list_shims(where.locate(node)):
            names.append(f"processes {shims}")
        if cgroups.exists(node):
            names.append(f"the cgroup {node.cgroup}")
    if network.exists():
        names.append(f"the bridge {layout.BRIDGE}")
    if chains := _list_chains():
        names.append(f"the iptables chains {', '.join(chains)}")
    if mounts := _list_mounts(where.run):
        names.append(f"the mounts {', '.join(map(str, mounts))}")
    if files := [*_list_fixed(), *(path for path in [where.run] if path.exists())]:
        names.append(f"the files {', '.join(map(str, files))}")
    return names


def _end_node(at: NodePaths) -> None:
    """End all programs of the node, and all that it runs."""
    kubelet, containerd = at.programs
    running = programs.read_record(at.cluster)
    # The kubelet first: it would start again what ends here.
    programs.end(at.cluster, [kubelet])
    programs.kill(cgroups.list_processes(at.node))
    containers.kill_shims(at)
    if containerd in running:
        # A test may have left it stopped.
        programs.resume([running[containerd]])
        containers.forget(at)
    programs.end(at.cluster, [containerd])


def _clean_iptables(where: ClusterPaths) -> None:
    """Remove the rules of kube-proxy, which knows its own; then what it leaves of chains with its
    prefix."""
    config = where.run / "proxy.json"
    if not config.exists():
        return
    try:
        proxy = binaries.ensure_program("kube-proxy")
    except IcdcError:
        return  # Without it no rule was made, either.
    subprocess.run(
        [str(proxy), f"--config={config}", "--cleanup"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,  # It complains about what was never there; `list_leftovers` judges.
    )
    for table in ("filter", "nat", "mangle"):
        for tool in ("iptables", "ip6tables"):
            _remove_chains(tool, table)


def _remove_chains(tool: str, table: str) -> None:
    """Remove the rules that lead to the chains, then the chains, which may refer to each other."""
    rules = _list_rules(tool, table)
    for rule in rules:
        words = rule.split()
        if words[0] == "-A" and not words[1].startswith(_CHAIN_PREFIX) and _CHAIN_PREFIX in rule:
            _run(tool, "-t", table, "-D", *_split_words(rule)[1:])
    chains = [rule.split()[1] for rule in rules if rule.startswith(f"-N {_CHAIN_PREFIX}")]
    for option in ("-F", "-X"):
        for chain in chains:
            _run(tool, "-t", table, option, chain)


def _list_chains() -> list[str]:
    return [
        f"{tool} {table} {rule.split()[1]}"
        for tool in ("iptables", "ip6tables")
        for table in ("filter", "nat", "mangle")
        for rule in _list_rules(tool, table)
        if rule.startswith(f"-N {_CHAIN_PREFIX}")
    ]


def _list_rules(tool: str, table: str) -> list[str]:
    return _run(tool, "-t", table, "-S").splitlines()


def _split_words(rule: str) -> list[str]:
    """Return the words of a rule, whose comments are in quotes."""
    return shlex.split(rule)


def _run(*command: str) -> str:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,  # Where a tool or table is missing, there is nothing of ours in it.
    )
    return done.stdout


def _list_mounts(folder: Path) -> list[Path]:
    """Return the mount points in the folder, the innermost first."""
    lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    points = [Path(line.split()[1]) for line in lines]
    return sorted((point for point in points if folder in point.parents), reverse=True)


def _unmount(folder: Path) -> None:
    for path in _list_mounts(folder):
        _run("umount", "--lazy", str(path))


def _list_fixed() -> list[Path]:
    """Return unused files that kubelets and network plugins wrote outside of our folder."""
    links = (path for path in _POD_LOGS.glob("*.log") if path.is_symlink() and not path.exists())
    return [*links, *(path for node in layout.NODES for path in _list_network_results(node))]


def _list_network_results(node: ClusterNode) -> list[Path]:
    if cgroups.exists(node):
        return []  # It is up: they are in use.
    own = list(_CNI_RESULTS.glob(f"{node.cgroup}-*-eth0"))
    pods = (path.name.removeprefix(f"{node.cgroup}-").removesuffix("-eth0") for path in own)
    loopbacks = (_CNI_RESULTS / f"cni-loopback-{pod}-lo" for pod in pods)
    return [*own, *(path for path in loopbacks if path.exists())]


def _remove_fixed() -> None:
    for path in _list_fixed():
        path.unlink()
