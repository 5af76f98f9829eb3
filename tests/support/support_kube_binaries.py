"""Builds the programs of a Kubernetes control plane from Go modules whose versions are pinned.

A build takes minutes, so it is done once: the program is kept in the project's cache, under a key
of everything that it is made of. Run as a program it builds all and prints where they are. Knows
the Go command and nothing of what the programs do.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from icdc_api.errors import IcdcError, Submission
from icdc_operator.embedded import jars

_TOOLS = Path(__file__).parents[1] / "tools"
_BUILD_SECONDS = 3600  # A loaded machine with two cores needs about 10 minutes for the API server.
_SHOWN_LINES = 25
_KUBERNETES = "k8s.io/kubernetes"
_STAMPED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


@dataclass(frozen=True)
class _Source:
    """A main package, and the folder whose go.mod and go.sum fix its version."""

    module: Path
    package: str


_SOURCES = {
    "etcd": _Source(_TOOLS / "etcd", "go.etcd.io/etcd/server/v3"),
    **{
        name: _Source(_TOOLS / "kubernetes", f"{_KUBERNETES}/cmd/{name}")
        for name in ("kube-apiserver", "kube-controller-manager", "kubectl")
    },
}
NAMES = tuple(_SOURCES)
"""Every program that can be built."""


def program(name: str) -> Path:
    """The program, ready to be run; built first where the cache does not have it.

    Submission where it cannot be had: no Go, one that is too old, no network, a full disk.
    """
    source = _SOURCES[name]
    flags = _flags(source)
    # A folder for each: kubectl takes a file name with a dash for that of a plugin.
    folder = jars.cache_dir() / "programs" / f"{name}-{_key(source, flags)}"
    built = folder / name
    if not built.is_file():
        with jars.exclusive(folder.with_name(".lock")):
            # Another process may have built it while this one waited.
            if not built.is_file():
                sys.stderr.write(f"building {name} {_version(source)}: minutes, but only once\n")
                _build(source, flags, built)
    return built


def programs(names: Iterable[str] = NAMES) -> dict[str, Path]:
    """Several of them by name; Submission as for one."""
    return {name: program(name) for name in names}


def _flags(source: _Source) -> list[str]:
    stamps = {}
    if source.package.startswith(_KUBERNETES):
        version = _version(source)
        major, minor, _ = version.removeprefix("v").split(".")
        values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        stamps = {f"{each}.{name}": values[name] for each in _STAMPED for name in values}
    linked = ["-s", "-w", *(f"-X {name}={value}" for name, value in stamps.items())]
    return ["-trimpath", "-buildvcs=false", "-ldflags", " ".join(linked)]


def _version(source: _Source) -> str:
    """The version that go.mod requires of the module that holds the package."""
    text = (source.module / "go.mod").read_text(encoding="utf-8")
    required: list[tuple[str, str]] = re.findall(
        r"^(?:require)?\s+(\S+) (v\S+)", text, re.MULTILINE
    )
    return next(
        version for module, version in required if f"{source.package}/".startswith(f"{module}/")
    )


def _key(source: _Source, flags: list[str]) -> str:
    platform = _go(source, "env", "GOVERSION", "GOOS", "GOARCH").stdout
    files = [(source.module / name).read_bytes() for name in ("go.mod", "go.sum")]
    return hashlib.sha256(b"\0".join([*files, *map(str.encode, flags), platform])).hexdigest()[:16]


def _build(source: _Source, flags: list[str], final: Path) -> None:
    """Builds in a folder beside the final one and renames it: nobody sees half a program."""
    with tempfile.TemporaryDirectory(dir=final.parent.parent, prefix=".build-") as scratch:
        made = Path(scratch) / "made"
        _go(source, "build", *flags, "-o", str(made / final.name), source.package)
        shutil.rmtree(final.parent, ignore_errors=True)
        made.rename(final.parent)


def _go(source: _Source, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    go = shutil.which("go")
    if go is None:
        raise Submission(
            "Go is missing, with which the programs of the API server are built: install it and "
            "put the folder of `go` on PATH."
        )
    # A workspace around the checkout would change the versions; without cgo no C compiler is
    # needed, and the program runs on any host of its platform.
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    try:
        done = subprocess.run(
            [go, *arguments],
            cwd=source.module,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_BUILD_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise Submission(f"`go {arguments[0]}` in {source.module} did not end well: {exc}") from exc
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").splitlines()[-_SHOWN_LINES:]
        raise Submission(f"`go {arguments[0]}` in {source.module} failed:\n" + "\n".join(last))
    return done


def main() -> int:
    """Builds what is missing, and prints the path of every program."""
    try:
        for name, path in programs().items():
            sys.stdout.write(f"{name}: {path}\n")
    except IcdcError as exc:
        sys.stderr.write(f"error: {exc.message}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
