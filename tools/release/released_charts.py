"""The charts as they are released: with the images of that release as defaults, by digest.

So `helm install oci://…` needs no value and no checkout, and a moved tag changes nothing. Charts in
git name no registry, since nobody knows there which one images will be in. Knows of the charts only
where they name images; Helm, which packs them, comes from PATH.

    in git          repository: iceberg-cdc-operator/operator
                    digest: ""
    in a release    repository: registry.example/iceberg-cdc-operator/operator
                    digest: "sha256:1f3a…"
"""

import json
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import chart_readme
import checkout
import image_context
from icdc_api.errors import Bug
from icdc_cli.embedded import programs
from released_image import ReleasedImage
from wanted import WantedRelease

CHARTS = {
    "iceberg-cdc-operator": ("operator", "spark"),
    "iceberg-cdc-pipelines": (),
    "iceberg-cdc-demo": ("spark",),
}
"""The charts, and which images of the release each names. The chart of pipelines names none: they
run with those of the operator."""
_HELM_SECONDS = 120


def pack_charts(release: WantedRelease, images: Sequence[ReleasedImage]) -> list[Path]:
    """Write the archives of the charts into the release's folder; return their paths.

    Submission where Helm is missing or refuses a chart.
    """
    with tempfile.TemporaryDirectory() as scratch:
        for name, targets in CHARTS.items():
            chart = Path(scratch) / "charts" / name
            checkout.copy_tracked(image_context.ROOT, Path(scratch), f"charts/{name}")
            named = [image for image in images if image.target in targets]
            if named:
                _name_images(chart, release, named)
            # Helm packs files with their dates; so the same chart gives the same archive.
            for path in chart.rglob("*"):
                os.utime(path, (release.epoch, release.epoch))
            programs.run_program(
                ["helm", "package", str(chart), "--destination", str(release.folder)],
                name=f"`helm package` of {name}",
                seconds=_HELM_SECONDS,
            )
    return [release.folder / f"{name}-{release.version}.tgz" for name in CHARTS]


def _name_images(chart: Path, release: WantedRelease, images: Sequence[ReleasedImage]) -> None:
    """Write the images into the chart's values, its annotations, and the table of its README."""
    values = chart / "values.yaml"
    text = values.read_text(encoding="utf-8")
    for image in images:
        text = set_default_image(text, image, release)
    values.write_text(text, encoding="utf-8")
    # Helm itself writes Chart.yaml anew, without comments.
    about = chart / "Chart.yaml"
    about.write_text(
        about.read_text(encoding="utf-8") + annotate_images(release, images), encoding="utf-8"
    )
    (chart / "README.md").write_text(chart_readme.render_readme(chart), encoding="utf-8")


def set_default_image(values: str, image: ReleasedImage, release: WantedRelease) -> str:
    """Return the text of a values.yaml with this image as a default; Bug unless it names it once.

    As text, because a YAML parser would drop the comments, which users read (`helm show values`).
    """
    # From the repository to the digest below it, with the lines between them as they are.
    pattern = re.compile(
        rf'(?P<start>^ *repository: ){image.repository}(?P<between>\n(?:.*\n)*? *digest: )""$',
        re.MULTILINE,
    )
    name = release.name_in_registry(image.repository)
    changed, times = pattern.subn(rf'\g<start>{name}\g<between>"{image.digest}"', values)
    if times != 1:
        raise Bug(f"values.yaml names {image.repository} with a digest {times} times, not once")
    return changed


def annotate_images(release: WantedRelease, images: Sequence[ReleasedImage]) -> str:
    """Return what Chart.yaml ends with: the images for Artifact Hub, which scans those.

    Lines below `annotations:`, which is the last key of the file.
    """
    listed = [
        {
            "name": image.target,
            "image": f"{release.name_in_registry(image.repository)}@{image.digest}",
        }
        for image in images
    ]
    # In JSON, which is YAML too: Artifact Hub reads the text of an annotation as YAML.
    return f"  artifacthub.io/images: {json.dumps(json.dumps(listed))}\n"
