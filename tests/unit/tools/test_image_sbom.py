"""Bills of materials name what an image is made of, in two forms, and are the same each time."""

import hashlib
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

import image_sbom
import sbom_formats
from image_sbom import WrongBillError
from sbom_formats import Component, Image

pytestmark = pytest.mark.unit

IMAGE = Image("iceberg-cdc-operator/spark", "1.2.3", "abc", "1980-01-01T00:00:00Z")
SUMS = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("wheel", "other", "source")}
LOCK = f"""\
attrs==26.1.0 \\
    --hash=sha256:{SUMS["other"]} \\
    --hash=sha256:{SUMS["wheel"]}
py_spark==4.1.4 ; python_version >= "3" \\
    --hash=sha256:{SUMS["source"]}
"""
STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u10
Description: GNU C Library
 Status: is said in a text.

Package: removed
Status: deinstall ok config-files
Architecture: all
Version: 1
"""
COMPONENTS = [
    Component("pypi", "attrs", "26.1.0", sha256=SUMS["wheel"]),
    Component("deb", "libc6", "1:2.36-9+deb12u10", "debian", qualifiers="arch=amd64"),
    Component("maven", "b", "2", "org.a", sha256=SUMS["other"], file="b-2.jar"),
    # The same jar may lie there under two names.
    Component("maven", "b", "2", "org.a", sha256=SUMS["other"], file="c.jar"),
]


def make_report(**installed: tuple[str, str]) -> str:
    """Return a report of pip on packages: name to version and checksum."""
    return json.dumps(
        {
            "install": [
                {
                    "metadata": {"name": name, "version": version},
                    "download_info": {"archive_info": {"hashes": {"sha256": digest}}},
                }
                for name, (version, digest) in installed.items()
            ]
        }
    )


def test_python_packages_have_the_checksum_of_the_lock() -> None:
    # What pip built itself has another checksum than its source.
    installed = make_report(attrs=("26.1.0", SUMS["wheel"]), Py_Spark=("4.1.4", "f" * 64))
    assert list(
        image_sbom.list_python_packages(LOCK.replace("py_spark", "py-spark"), installed)
    ) == [
        Component("pypi", "attrs", "26.1.0", sha256=SUMS["wheel"]),
        Component("pypi", "py-spark", "4.1.4", sha256=SUMS["source"]),
    ]


@pytest.mark.parametrize(
    "installed", [{"attrs": ("26.1.0", "f" * 64)}, {"unknown": ("1", SUMS["wheel"])}]
)
def test_a_package_that_the_lock_does_not_have_ends_the_build(
    installed: dict[str, tuple[str, str]],
) -> None:
    with pytest.raises(WrongBillError, match="is not in the lock"):
        list(image_sbom.list_python_packages(LOCK, make_report(**installed)))


def test_debian_packages_are_those_that_are_installed() -> None:
    packages = list(image_sbom.list_debian_packages(STATUS, 'ID=debian\nVERSION_ID="12"\n'))
    qualifiers = "arch=amd64&distro=debian-12"
    assert packages == [Component("deb", "libc6", "2.36-9+deb12u10", "debian", qualifiers)]
    assert packages[0].purl == f"pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?{qualifiers}"


def test_a_package_of_which_a_part_was_copied_is_listed_beside_those_of_dpkg(
    tmp_path: Path,
) -> None:
    (tmp_path / "status.d").mkdir()
    (tmp_path / "status").write_text(STATUS)
    copied = STATUS.replace("libc6", "openjdk-17-jre-headless").partition("\n\n")[0]
    (tmp_path / "status.d" / "openjdk-17-jre-headless").write_text(copied)
    packages = image_sbom.list_debian_packages(image_sbom.read_dpkg_status(tmp_path), "")
    assert [package.name for package in packages] == ["libc6", "openjdk-17-jre-headless"]


def write_jar(folder: Path, name: str, *properties: str) -> str:
    """Return a jar with descriptions of Maven; its checksum."""
    with zipfile.ZipFile(folder / name, "w") as made:
        for number, text in enumerate(properties):
            made.writestr(f"META-INF/maven/g/{number}/pom.properties", text)
    return hashlib.sha256((folder / name).read_bytes()).hexdigest()


def test_jars_are_named_by_the_lock_by_themselves_or_by_their_files(tmp_path: Path) -> None:
    inner = "groupId=org.inner\nartifactId=inner\nversion=9\n"
    own = "#Generated\r\ngroupId=org.own\r\nartifactId=own\r\nversion=3\r\n"
    native = "groupId=io.netty\nartifactId=epoll\nversion=4.2.7.Final\n"
    locked = write_jar(tmp_path, "a-1.jar", inner)
    write_jar(tmp_path, "epoll-4.2.7.Final-linux-x86_64.jar", native)
    write_jar(tmp_path, "own-3.jar", inner, own)
    write_jar(tmp_path, "scala-library-2.13.17.jar")
    write_jar(tmp_path, "strange.jar")
    lock = f"# jars\nspark org.a:a:1 a-1.jar {locked}\n"
    jars = [(jar.file, jar.purl) for jar in image_sbom.list_jars(tmp_path, lock)]
    assert jars == [
        ("a-1.jar", "pkg:maven/org.a/a@1"),
        (
            "epoll-4.2.7.Final-linux-x86_64.jar",
            "pkg:maven/io.netty/epoll@4.2.7.Final?classifier=linux-x86_64",
        ),
        ("own-3.jar", "pkg:maven/org.own/own@3"),
        ("scala-library-2.13.17.jar", "pkg:generic/scala-library@2.13.17"),
        ("strange.jar", "pkg:generic/strange"),
    ]
    assert {jar.sha256 for jar in image_sbom.list_jars(tmp_path, lock)} >= {locked}


def test_both_forms_name_the_same_components_whatever_their_order() -> None:
    for render in (sbom_formats.render_spdx, sbom_formats.render_cyclonedx):
        text = render(IMAGE, COMPONENTS)
        assert text == render(IMAGE, reversed(COMPONENTS))
        assert sbom_formats.list_purls(json.loads(text)) == {
            component.purl for component in COMPONENTS
        }
        assert sbom_formats.list_files(json.loads(text)) == {"b-2.jar", "c.jar"}
        other = json.loads(render(IMAGE, COMPONENTS[:1]))
        key = "documentNamespace" if "packages" in other else "serialNumber"
        assert other[key] != json.loads(text)[key]


def test_spdx_has_what_its_schema_demands() -> None:
    bill: dict[str, Any] = json.loads(sbom_formats.render_spdx(IMAGE, COMPONENTS))
    assert bill["spdxVersion"] == "SPDX-2.3"
    assert bill["dataLicense"] == "CC0-1.0"
    assert bill["SPDXID"] == "SPDXRef-DOCUMENT"
    assert bill["creationInfo"]["created"] == IMAGE.created
    ids = [package["SPDXID"] for package in bill["packages"]]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", id_) for id_ in ids)
    assert {package["downloadLocation"] for package in bill["packages"]} == {"NOASSERTION"}
    related = [relationship["relatedSpdxElement"] for relationship in bill["relationships"]]
    assert related == ids
    sums = [checksum for package in bill["packages"] for checksum in package.get("checksums", ())]
    assert all(re.fullmatch("[0-9a-f]{64}", checksum["checksumValue"]) for checksum in sums)


def test_cyclonedx_has_what_its_schema_demands() -> None:
    bill: dict[str, Any] = json.loads(sbom_formats.render_cyclonedx(IMAGE, COMPONENTS))
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bill["serialNumber"])
    assert bill["metadata"]["timestamp"] == IMAGE.created
    references = [component["bom-ref"] for component in bill["components"]]
    assert len(set(references)) == len(references)
    whole, *parts = bill["dependencies"]
    assert whole == {"ref": bill["metadata"]["component"]["bom-ref"], "dependsOn": references}
    assert [part["ref"] for part in parts] == references
