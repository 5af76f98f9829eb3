"""Builds images with BuildKit, which `docker build` uses, beside those that buildah builds.

The only module that starts buildkitd and buildctl; both come from PATH. The daemon lives for one
build, below the project's cache. Base image and runs in an image are buildah's, so that two images
of one checkout differ in nothing but what the builder makes of the Dockerfile.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import image_builder
import image_context
import oci_archive
from icdc_api.errors import BadSpec, StartTimeout
from icdc_cli.embedded import programs
from image_builder import Buildah

PROGRAMS = ("buildkitd", "buildctl")
PACKAGES = ("runc", "util-linux")
"""Debian packages of what BuildKit runs the steps of a Dockerfile with, and of setpriv."""

_BUILD_SECONDS = 7200
_START_SECONDS = 60.0
_POLL_SECONDS = 0.1
_CACHE_MEGABYTES = 8_000
"""Layers of earlier builds that stay for later ones."""
_SHOWN_LINES = 30
_BASE = "base"
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


@dataclass(frozen=True)
class BuildKit:
    """Builds below one folder, which nobody else uses at the same time; has Buildah's methods.

    An image is named by the folder of its OCI image layout or by its archive, a base by
    `FOLDER@DIGEST`.
    """

    folder: Path
    buildah: Buildah

    def base(self, wanted: str, how: str, epoch: int) -> str:
        """Bring the base image that buildah has, or makes, into a layout; done once for each."""
        image = self.buildah.base(wanted, how, epoch)
        layout = self.folder / f"{_BASE}-{image.removeprefix('sha256:')[:16]}"
        if not layout.is_dir():
            self.folder.mkdir(parents=True, exist_ok=True)
            for older in self.folder.glob(f"{_BASE}-*"):
                shutil.rmtree(older)
            made = layout.with_name(f".{layout.name}")
            shutil.rmtree(made, ignore_errors=True)
            self.buildah.export(image, f"oci:{made}:{_BASE}")
            made.rename(layout)
        return f"{layout}@{oci_archive.layout_digest(layout)}"

    def build(
        self, target: str, *, base: str, arguments: Mapping[str, str], epoch: int, cached: bool
    ) -> str:
        """Build a target of the Dockerfile from the checkout as it is; the folder of its layout.

        BadSpec without the programs, StartTimeout and Submission where the build fails.
        """
        layout, _, digest = base.rpartition("@")
        layers = self.folder / target
        shutil.rmtree(layers, ignore_errors=True)
        # The names of layers say the moment of a build unless they are told another.
        values = {**_proxies(), **arguments, "SOURCE_DATE_EPOCH": str(epoch), "BASE_IMAGE": _BASE}
        output = f"type=oci,tar=false,dest={layers},compression=uncompressed,rewrite-timestamp=true"
        with self._daemon() as address:
            _run(
                *("buildctl", "--addr", address, "build", "--progress", "plain"),
                *("--frontend", "dockerfile.v0", "--opt", f"target={target}"),
                *(f"--local={name}={image_context.ROOT}" for name in ("context", "dockerfile")),
                *("--oci-layout", f"{_BASE}={layout}"),
                *("--opt", f"context:{_BASE}=oci-layout://{_BASE}@{digest}"),
                *(f"--opt=build-arg:{key}={value}" for key, value in values.items()),
                *(f"--secret=id={name},src={at}" for name, at in image_builder.secrets().items()),
                *(() if cached else ("--no-cache",)),
                *("--output", output),
            )
        return str(layers)

    def archive(self, image: str, name: str, file: Path) -> None:
        """Write the image as an OCI archive; the layout goes, since the archive has all of it."""
        oci_archive.write_layout(Path(image), name, file)
        shutil.rmtree(image)

    def find(self, archive: Path) -> str | None:
        """Return the image of an archive that is there: BuildKit would write all of it again."""
        return str(archive) if archive.is_file() else None

    def run(self, image: str, command: list[str], text: str) -> str:
        """Run the command as Buildah.run does."""
        imported = self.buildah.pull(Path(image))
        try:
            return self.buildah.run(imported, command, text)
        finally:
            self.buildah.remove(imported)

    def shrink(self) -> None:
        """Leave the layers to buildkitd, which removes the oldest beyond _CACHE_MEGABYTES."""
        self.buildah.shrink()

    def clean(self) -> None:
        """Remove every image and layer."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def _daemon(self) -> Iterator[str]:
        """Run buildkitd; its address."""
        missing = [name for name in PROGRAMS if shutil.which(name) is None]
        if missing:
            raise BadSpec(
                f"{' and '.join(missing)} of BuildKit must be on PATH to build with it; "
                "`make test-cluster` shows how the tests build and name them."
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / "buildkitd.log"
        # The path of a socket may have 107 bytes.
        with tempfile.TemporaryDirectory(prefix="icdc-buildkit-") as scratch, log.open("wb") as to:
            address = f"unix://{scratch}/socket"
            daemon = subprocess.Popen(
                # It ends with us, even when we are killed.
                ["setpriv", "--pdeathsig", "TERM", "--", *self._daemon_command(address)],
                stdin=subprocess.DEVNULL,
                stdout=to,
                stderr=subprocess.STDOUT,
            )
            try:
                _await(daemon, address, log)
                yield address
            finally:
                daemon.terminate()
                daemon.wait()

    def _daemon_command(self, address: str) -> list[str]:
        root = ("--addr", address, "--root", str(self.folder / "storage"))
        worker = ("--containerd-worker=false", "--oci-worker=true", "--oci-worker-net=host")
        budget = f"--oci-worker-gc-keepstorage={_CACHE_MEGABYTES},0,{_CACHE_MEGABYTES}"
        return ["buildkitd", *root, *worker, "--oci-worker-gc=true", budget]


def _await(daemon: "subprocess.Popen[bytes]", address: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    question = ["buildctl", "--addr", address, "debug", "workers"]
    while subprocess.run(question, capture_output=True, check=False).returncode != 0:
        if daemon.poll() is not None or time.monotonic() > deadline:
            last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_SHOWN_LINES:]
            raise StartTimeout("buildkitd does not start:\n" + "\n".join(last))
        time.sleep(_POLL_SECONDS)


def _run(*command: str) -> None:
    programs.run_program(command, name=f"`{command[0]} build`", seconds=_BUILD_SECONDS)


def _proxies() -> dict[str, str]:
    """Build arguments that every Dockerfile has, and that stay in no layer."""
    return {name: os.environ[name] for name in _PROXIES if name in os.environ}
