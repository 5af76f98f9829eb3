"""Builds the Kubernetes programs of the tests from Go modules whose versions are pinned.

A build takes minutes, so it is done once: the program is kept in the project's cache, under a key
of everything that it is made of. Run as a program it builds those that its arguments name (without
any: a control plane's) and prints where they are. Knows the Go command and nothing of what the
programs do.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from icdc_api.errors import IcdcError, Submission
from icdc_cli.embedded import jars, programs
from icdc_testing import ROOT

_TOOLS = ROOT / "tests" / "tools"
_BUILD_SECONDS = 3600  # A loaded machine with two cores needs about 10 minutes for the API server.
# Without what a debugger reads, and not inlined: etcd takes 82 seconds of a core in place of 127.
_COMPILED = "-gcflags=all=-dwarf=false -l"
# The API server has much to do: the largest pipelines take it seconds.
_COMPILED_TO_BE_QUICK = "-gcflags=all=-dwarf=false"
_KUBERNETES = "k8s.io/kubernetes"
_VERSION_VARIABLE = "ICDC_KUBERNETES"
# Where the version is fixed: `make soak-oldest` names the folder of the oldest.
_KUBERNETES_FOLDER = _TOOLS / os.environ.get(_VERSION_VARIABLE, "kubernetes")
IS_OLDER = _VERSION_VARIABLE in os.environ
"""Whether the tests run with an older Kubernetes than the one whose words and fields they know."""
_HELMS = {"helm": "helm.sh/helm/v4", "helm3": "helm.sh/helm/v3"}


@dataclass(frozen=True)
class _GoSource:
    """A main package, and the folder whose go.mod and go.sum fix its version.

    The package "." is that of the folder itself; `version_of` is then the module that it wraps.
    """

    module: Path
    package: str
    version_of: str = ""


_SOURCES = {
    "etcd": _GoSource(_TOOLS / "etcd", "go.etcd.io/etcd/server/v3"),
    **{
        name: _GoSource(_KUBERNETES_FOLDER, f"{_KUBERNETES}/cmd/{name}")
        for name in (
            *("kube-apiserver", "kube-controller-manager", "kube-scheduler"),
            *("kubelet", "kube-proxy", "kubectl"),
        )
    },
    "coredns": _GoSource(_TOOLS / "coredns", ".", "github.com/coredns/coredns"),
    "pause": _GoSource(_TOOLS / "pause", "."),
    "pod": _GoSource(_TOOLS / "pod", "."),
    "spark-operator": _GoSource(
        _TOOLS / "spark-operator", "github.com/kubeflow/spark-operator/v2/cmd/operator"
    ),
    **{
        name: _GoSource(_TOOLS / "buildkit", f"github.com/moby/buildkit/cmd/{name}")
        for name in ("buildkitd", "buildctl")
    },
    **{name: _GoSource(_TOOLS / name, f"{module}/cmd/helm") for name, module in _HELMS.items()},
    "crane": _GoSource(_TOOLS / "crane", "github.com/google/go-containerregistry/cmd/crane"),
    "cosign": _GoSource(_TOOLS / "cosign", "github.com/sigstore/cosign/v3/cmd/cosign"),
    "gitops": _GoSource(_TOOLS / "gitops", ".", "github.com/google/cel-go"),
    "promql": _GoSource(_TOOLS / "promql", ".", "github.com/prometheus/prometheus"),
}
_RARE = ("buildkitd", "buildctl", "cosign", "helm3")
"""Built in minutes, for which `make test` does not wait: `make soak-buildkit`, `make soak-release`
and `make soak-helm` do."""
NAMES = tuple(name for name in _SOURCES if name not in _RARE)
"""Every program that tests need."""

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
"""What an API server without nodes is made of."""
WITHOUT_NODES = (*CONTROL_PLANE, "helm", "gitops", "crane", "promql")
"""Every program that tests need without root: all but those of the level `cluster`."""


def read_version(name: str) -> str:
    """Return the version of the program, as its own build would name it: "v1.34.4"."""
    return _read_version(_SOURCES[name])


def ensure_program(name: str) -> Path:
    """Return the program, ready to be run; built first where the cache does not have it.

    Submission where it cannot be had: no Go, one that is too old, no network, a full disk.
    """
    source = _SOURCES[name]
    flags = _build_flags(source)
    # A folder for each: kubectl takes a file name with a dash for that of a plugin.
    folder = jars.choose_cache_dir() / "programs" / f"{name}-{_compute_key(source, flags)}"
    built = folder / name
    if not built.is_file():
        with jars.hold_lock(folder.with_name(".lock")):
            # Another process may have built it while this one waited.
            if not built.is_file():
                sys.stderr.write(
                    f"building {name} {_read_version(source)}: only once, but minutes\n"
                )
                _build(source, flags, built)
    return built


def ensure_programs(names: Iterable[str] = CONTROL_PLANE) -> dict[str, Path]:
    """Return several of them by name; Submission as for one.

    What Go has compiled is removed once every program that this host can need has been built, and
    so are the modules: they take 6 and 5 GB, which nothing reads again until a version changes.
    """
    built = {name: ensure_program(name) for name in names}
    caches = _list_go_caches()
    if built.keys() >= set(_list_needed()) and caches["GOCACHE"].is_dir():
        with jars.hold_lock(caches["GOCACHE"].with_name("programs") / ".lock"):
            for folder in caches.values():
                shutil.rmtree(folder, ignore_errors=True)
    return built


@cache
def try_to_build(names: tuple[str, ...] = CONTROL_PLANE) -> None:
    """Build several of them; who needs one that cannot be built meets the same error, and says so.

    Before the time of a test begins, which a first build exceeds.
    """
    with contextlib.suppress(IcdcError):
        ensure_programs(names)


def _list_needed() -> tuple[str, ...]:
    """Return the programs that the tests of this host need: those of nodes need root."""
    return NAMES if os.geteuid() == 0 else WITHOUT_NODES


def _list_go_caches() -> dict[str, Path]:
    """Return Go's own caches, by the variable that names each.

    They are for these programs alone, so that they can be removed.
    """
    cache = jars.choose_cache_dir()
    return {"GOCACHE": cache / "go-build", "GOMODCACHE": cache / "go-modules"}


def find_source_folder(name: str) -> Path:
    """Return the folder of the module that holds the program: charts and definitions are there too.

    Fetched if it is not there; Submission as for `ensure_program`.
    """
    source = _SOURCES[name]
    with jars.hold_lock(jars.choose_cache_dir() / "programs" / ".lock"):
        shown = _go(source, "mod", "download", "-json", _read_module_and_version(source)[0])
    folder: str = json.loads(shown)["Dir"]
    return Path(folder)


def _build_flags(source: _GoSource) -> list[str]:
    linked = ["-s", "-w", *(f"-X {name}={value}" for name, value in _build_stamps(source).items())]
    is_quick = source.package.startswith(_KUBERNETES)
    compiled = _COMPILED_TO_BE_QUICK if is_quick else _COMPILED
    return ["-trimpath", "-buildvcs=false", compiled, "-ldflags", " ".join(linked)]


def _build_stamps(source: _GoSource) -> dict[str, str]:
    """Return variables by which a program knows its version, as its own build sets them."""
    if source.package.startswith(tuple(_HELMS.values())):
        module, version = _read_module_and_version(source)
        stamps = {f"{module}/internal/version.version": version}
        if module == _HELMS["helm3"]:
            # What it takes for the version of Kubernetes where it renders without one: that of its
            # libraries. Helm 4 reads it from them.
            minor = _read_module(source, "k8s.io/client-go")[1].split(".")[1]
            for package in ("pkg/chartutil", "pkg/lint/rules"):
                stamps[f"{module}/{package}.k8sVersionMajor"] = "1"
                stamps[f"{module}/{package}.k8sVersionMinor"] = minor
        return stamps
    if source.package.startswith(_KUBERNETES):
        version = _read_version(source)
        major, minor, _ = version.removeprefix("v").split(".")
        values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        return {f"{package}.{name}": values[name] for package in packages for name in values}
    return {}


def _read_version(source: _GoSource) -> str:
    return _read_module_and_version(source)[1]


def _read_module_and_version(source: _GoSource) -> tuple[str, str]:
    """Return the module that holds the package and its version in go.mod; ("", "") for our own."""
    return _read_module(source, source.version_of or source.package)


def _read_module(source: _GoSource, package: str) -> tuple[str, str]:
    text = (source.module / "go.mod").read_text(encoding="utf-8")
    required: list[tuple[str, str]] = re.findall(
        r"^(?:require)?\s+(\S+) (v\S+)", text, re.MULTILINE
    )
    fitting = (
        requirement for requirement in required if f"{package}/".startswith(f"{requirement[0]}/")
    )
    return next(fitting, ("", ""))


def _compute_key(source: _GoSource, flags: list[str]) -> str:
    platform = _go(source, "env", "GOVERSION", "GOOS", "GOARCH").encode()
    # A module without dependencies has no go.sum; those of our own have code beside it.
    names = ("go.mod", "go.sum", "*.go")
    paths = [path for name in names for path in sorted(source.module.glob(name))]
    # What a comment says is no reason to build for minutes.
    files = [re.sub(rb"(?m)^//.*\n", b"", path.read_bytes()) for path in paths]
    return hashlib.sha256(b"\0".join([*files, *map(str.encode, flags), platform])).hexdigest()[:16]


def _build(source: _GoSource, flags: list[str], final: Path) -> None:
    """Build in a folder beside the final one and rename it: nobody sees half a program."""
    with tempfile.TemporaryDirectory(dir=final.parent.parent, prefix=".build-") as scratch:
        made = Path(scratch) / "made"
        _go(source, "build", *flags, "-o", str(made / final.name), source.package)
        shutil.rmtree(final.parent, ignore_errors=True)
        made.rename(final.parent)


def _go(source: _GoSource, *arguments: str) -> str:
    """Run Go in the module of `source`; return what it prints."""
    go = shutil.which("go")
    if go is None:
        raise Submission(
            "Go is missing, with which the Kubernetes programs of the tests are built: install it "
            "and put the folder of `go` on PATH."
        )
    # A workspace around the checkout would change the versions; without cgo no C compiler is
    # needed, and the program runs on any host of its platform. Go makes modules read-only unless
    # it is asked not to: nobody but root could remove them.
    flags = " ".join((os.environ.get("GOFLAGS", ""), "-modcacherw")).strip()
    folders = {name: str(folder) for name, folder in _list_go_caches().items()}
    return programs.run_program(
        [go, *arguments],
        name=f"`go {arguments[0]}` in {source.module}",
        seconds=_BUILD_SECONDS,
        folder=source.module,
        env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": flags, **folders},
    )


def main() -> int:
    """Build what is missing, and print the path of every program."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--host", action="store_true", help="all that tests need on this host")
    parser.add_argument("--path", action="store_true", help="print their folders as PATH has them")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(_SOURCES))
    options = parser.parse_args()
    names = _list_needed() if options.host else options.names
    unknown = sorted(set(names) - set(_SOURCES))
    if unknown:
        parser.error(f"no such program: {', '.join(unknown)}; known: {', '.join(_SOURCES)}")
    try:
        built = ensure_programs(names or CONTROL_PLANE)
        folders = os.pathsep.join(str(path.parent) for path in built.values())
        lines = "".join(f"{name}: {path}\n" for name, path in built.items())
        sys.stdout.write(f"{folders}\n" if options.path else lines)
    except IcdcError as exc:
        sys.stderr.write(f"error: {exc.message}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
