"""Bills of materials in their two forms, SPDX 2.3 and CycloneDX 1.6, both as JSON.

Both, since a tool that reads bills often knows one of them. What is said is the same:

    component        SPDX                        CycloneDX
    package URL      externalRefs, purl          purl
    group of Maven   in the package URL only     group
    file in image    packageFileName             a property of ours
    checksum         "SHA256"                    "SHA-256"

What a user gains: a scanner of either kind reads what is in the image, 423 components in Spark's.
Libraries write these forms as well, and would be one more part of the lock, for a stage of the
build that has Python and nothing else.

Pure: the same components give the same text, since identifiers are made from what is described and
the date is given. Knows no image and no lock; needs nothing but Python, because it runs while an
image is built.
"""

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

SPDX_FILE = "sbom.spdx.json"
CYCLONEDX_FILE = "sbom.cdx.json"
_FILE_PROPERTY = "iceberg-cdc-operator:file"
"""CycloneDX lets anybody name properties, with a name space of their own before the colon."""
_ROOT = "SPDXRef-image"


# Ordered, so that a bill does not depend on the order in which folders and locks are read.
@dataclass(frozen=True, order=True)
class Component:
    """One part of an image."""

    kind: str
    """Type of the package URL: deb, generic, maven, pypi."""
    name: str
    """Without its group: `iceberg-core`, `libc6`, `pyarrow`."""
    version: str
    """As its own tools write it; "" where a jar says nothing."""
    namespace: str = ""
    """Group of a Maven artifact, or the distribution of a Debian package."""
    qualifiers: str = ""
    """Of the package URL, as they stand in it."""
    sha256: str = ""
    """In hex, of the file that was installed; "" where none is recorded."""
    file: str = ""
    """Name of the file, for what is one file in the image."""

    @property
    def purl(self) -> str:
        """The package URL, by which scanners find known weaknesses."""
        # Everything is quoted that a URL may read otherwise, `+` of Debian's versions above all.
        parts = [quote(part, safe="") for part in (self.namespace, self.name) if part]
        version = f"@{quote(self.version, safe='')}" if self.version else ""
        tail = f"?{self.qualifiers}" if self.qualifiers else ""
        return f"pkg:{self.kind}/{'/'.join(parts)}{version}{tail}"


@dataclass(frozen=True)
class Image:
    """What a bill describes."""

    name: str
    """Without registry and tag: iceberg-cdc-operator/spark."""
    version: str
    """Of the checkout, as the image's label has it."""
    revision: str
    """The commit that the image says it is built from, in its label too."""
    created: str
    """Date in RFC 3339, UTC."""


def render_spdx(image: Image, components: Iterable[Component]) -> str:
    """Render SPDX 2.3: one package for the image, which contains one for each component."""
    parts = sorted(components)
    packages = [_build_spdx_package(component) for component in parts]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", _ROOT)]
    relations += [(_ROOT, "CONTAINS", package["SPDXID"]) for package in packages]
    return _render_json(
        {
            "spdxVersion": "SPDX-2.3",
            # Of the bill, not of the image; the specification allows no other.
            "dataLicense": "CC0-1.0",
            "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"{image.name}-{image.version}",
            "documentNamespace": f"urn:uuid:{_compute_identifier('spdx', image, parts)}",
            "creationInfo": {
                "created": image.created,
                "creators": [f"Tool: iceberg-cdc-operator-{image.version}"],
            },
            "packages": [
                {
                    "SPDXID": _ROOT,
                    "name": image.name,
                    "versionInfo": image.version,
                    "primaryPackagePurpose": "CONTAINER",
                    # Must be said, and is not known: an image may be pushed to any registry.
                    "downloadLocation": "NOASSERTION",
                    # Without this a checksum over all files of the package would be demanded.
                    "filesAnalyzed": False,
                    "sourceInfo": f"built from revision {image.revision}",
                },
                *packages,
            ],
            "relationships": [
                {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
                for one, kind, other in relations
            ],
        }
    )


def render_cyclonedx(image: Image, components: Iterable[Component]) -> str:
    """Render CycloneDX 1.6: the image as the subject, which depends on each component."""
    parts = sorted(components)
    subject = f"{image.name}@{image.version}"
    return _render_json(
        {
            "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "serialNumber": f"urn:uuid:{_compute_identifier('cyclonedx', image, parts)}",
            # Of the bill: a second one for the same serial number would be 2. Here another content
            # has another serial number.
            "version": 1,
            "metadata": {
                "timestamp": image.created,
                "component": {
                    "type": "container",
                    "bom-ref": subject,
                    "name": image.name,
                    "version": image.version,
                    "properties": [
                        {"name": "iceberg-cdc-operator:revision", "value": image.revision}
                    ],
                },
            },
            "components": [_build_cyclonedx_component(component) for component in parts],
            "dependencies": [
                # Flat: what depends on what is the locks' matter. The parts are named once more,
                # since one without an entry has dependencies that are not known, not none.
                {"ref": subject, "dependsOn": [_name_component(component) for component in parts]},
                *({"ref": _name_component(component)} for component in parts),
            ],
        }
    )


def list_purls(bill: Mapping[str, Any]) -> set[str]:
    """Return the package URLs of a bill in either form; not of the image, which has none."""
    if "components" in bill:
        return {part["purl"] for part in bill["components"]}
    references = (ref for part in bill["packages"] for ref in part.get("externalRefs", ()))
    return {reference["referenceLocator"] for reference in references}


def list_files(bill: Mapping[str, Any]) -> set[str]:
    """Return the names of the files that a bill in either form describes one by one: jars."""
    if "components" in bill:
        noted = (item for part in bill["components"] for item in part.get("properties", ()))
        return {item["value"] for item in noted if item["name"] == _FILE_PROPERTY}
    return {part["packageFileName"] for part in bill["packages"] if "packageFileName" in part}


def _build_spdx_package(component: Component) -> dict[str, Any]:
    # An SPDXID has letters, digits, dots and dashes only; a package URL has more than these.
    package: dict[str, Any] = {
        "SPDXID": f"SPDXRef-{re.sub(r'[^A-Za-z0-9.-]', '-', _name_component(component))}",
        "name": component.name,
        "versionInfo": component.version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": component.purl,
            }
        ],
    }
    if component.file:
        package["packageFileName"] = component.file
    if component.sha256:
        package["checksums"] = [{"algorithm": "SHA256", "checksumValue": component.sha256}]
    return package


def _build_cyclonedx_component(component: Component) -> dict[str, Any]:
    part: dict[str, Any] = {
        "type": "library",
        "bom-ref": _name_component(component),
        "name": component.name,
        "version": component.version,
        "purl": component.purl,
    }
    if component.kind == "maven":
        part["group"] = component.namespace
    if component.file:
        part["properties"] = [{"name": _FILE_PROPERTY, "value": component.file}]
    if component.sha256:
        part["hashes"] = [{"alg": "SHA-256", "content": component.sha256}]
    return part


def _name_component(component: Component) -> str:
    """Name of a component in its bill: one jar may lie in an image under two names."""
    return f"{component.purl}#{component.file}" if component.file else component.purl


def _compute_identifier(form: str, image: Image, parts: Sequence[Component]) -> uuid.UUID:
    """Return what names this bill and no other: a UUID of all that is in it.

    A random one, as most tools give, would make another layer of each build. `form`: the two bills
    of an image are two documents.
    """
    digest = hashlib.sha256(repr((form, image, parts)).encode()).digest()
    # The version sets the bits by which readers tell a UUID from 16 bytes; 5 is "made of a name".
    return uuid.UUID(bytes=digest[:16], version=5)


def _render_json(bill: Mapping[str, Any]) -> str:
    return json.dumps(bill, indent=1) + "\n"
