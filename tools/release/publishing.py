"""Pushes a release's images and charts to a registry, and never over a version that is there.

By programs that others maintain, from PATH: crane for images, because it pushes a layout as it is
and so leaves digests alone, and Helm for charts. Both use the logins of `docker login`. Registries
differ in too much (tokens, redirects, mounts of layers) for a client of our own.

    in the registry             what happens
    nothing of this version     pushed
    the same bytes              left alone, so that a push that was cut off can be repeated
    other bytes                 Submission, before anything is pushed
    what one may not read       the same: it could be a version that others released
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import released_image
from icdc_api.errors import Submission
from icdc_cli.embedded import programs
from records import hash_file
from released_image import ReleasedImage
from wanted import WantedRelease

CHARTS = "charts"
"""What stands before the names of charts: one of them is also that of the images' folder."""
_SECONDS = 3600
"""For one image: a bound for a registry that takes too slowly."""
# Of the line with which crane ends: what it says after the address that it asked. Names in that
# address, and whatever else a registry writes, could be any of these words.
_ABSENT = re.compile(
    r"^Error: \S+ manifest \S+: GET \S+/manifests/\S+: "
    r"(?:MANIFEST_UNKNOWN|NAME_UNKNOWN|NOT_FOUND|unexpected status code 404)\b",
    re.MULTILINE,
)
_DENIED = re.compile(
    r"^Error: \S+ manifest \S+: [A-Z]+ \S+: "
    r"(?:DENIED|UNAUTHORIZED|unexpected status code 40[13])\b",
    re.MULTILINE,
)


def publish(
    release: WantedRelease,
    images: Sequence[ReleasedImage],
    charts: Sequence[Path],
    *,
    plain_http: bool,
) -> Iterator[str]:
    """Push what the registry lacks; yield each reference, with tag and digest.

    Submission: a program is missing, the registry refuses, or it has other bytes of this version.
    """
    # All before the first push: other bytes of one reference must leave the others unpushed.
    present = {
        reference: _is_present(reference, digest, plain_http)
        for reference, digest in _list_references(release, images, charts).items()
    }
    insecure = ["--insecure"] if plain_http else []
    for image in images:
        reference = name_image(release, image)
        if not present[reference]:
            with released_image.unpack_layout(image) as layout:
                _run("crane", "push", *insecure, str(layout), reference)
        yield f"{reference}@{image.digest}"
    for chart in charts:
        reference = name_chart(release, chart)
        if not present[reference]:
            to = f"oci://{release.name_in_registry(CHARTS)}"
            _run("helm", "push", *(["--plain-http"] if plain_http else []), str(chart), to)
        # Helm writes the manifest, so only the registry knows its digest.
        yield f"{reference}@{_run('crane', 'digest', *insecure, reference).strip()}"


def name_image(release: WantedRelease, image: ReleasedImage) -> str:
    """Return the reference by tag."""
    return f"{release.name_in_registry(image.repository)}:{release.version}"


def name_chart(release: WantedRelease, chart: Path) -> str:
    """Return the reference by tag of a chart's archive, NAME-VERSION.tgz."""
    name = chart.name.removesuffix(f"-{release.version}.tgz")
    return f"{release.name_in_registry(CHARTS)}/{name}:{release.version}"


def _list_references(
    release: WantedRelease, images: Sequence[ReleasedImage], charts: Sequence[Path]
) -> dict[str, str]:
    """Return the digest that identifies the content of each reference."""
    return {
        **{name_image(release, image): image.digest for image in images},
        **{name_chart(release, chart): f"sha256:{hash_file(chart)}" for chart in charts},
    }


def _is_present(reference: str, digest: str, plain_http: bool) -> bool:
    """Return whether the registry has exactly that; Submission where it has something else.

    An image is identified by its manifest, a chart by its archive, which is the one layer of its
    manifest: Helm writes manifests as it likes.
    """
    options = ["--insecure"] if plain_http else []
    try:
        manifest = _run("crane", "manifest", *options, reference)
    except Submission as exc:
        if is_absent(reference, exc.message):
            return False
        raise
    digests = {layer["digest"] for layer in json.loads(manifest).get("layers", ())}
    # crane prints a manifest as the registry has it, so that its hash is the digest of the image.
    digests.add(f"sha256:{hashlib.sha256(manifest.encode()).hexdigest()}")
    if digest not in digests:
        raise Submission(
            f"{reference} is there already and is not what this checkout makes: a version is "
            "released once. Raise the version."
        )
    return True


def is_absent(reference: str, printed: str) -> bool:
    """Return whether crane, which failed and printed that, says that the registry has no such tag.

    Submission where the registry denies reading: whether the tag is there is then unknown.
    """
    if _DENIED.search(printed):
        raise Submission(
            f"The registry does not let you read {reference}, so it may have that version already, "
            "and nothing is pushed. Log in (`docker login`) with an account that may pull and "
            "push, or ask whoever runs the registry to allow both, and to create the repository "
            f"if pushing does not create it. {printed}"
        )
    return bool(_ABSENT.search(printed))


def _run(*command: str) -> str:
    return programs.run_program(
        command, name=f"`{command[0]} {command[1]}` of {command[-1]}", seconds=_SECONDS
    )
