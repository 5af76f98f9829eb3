"""The class path and the list of classes of the Spark image, and that a list is there."""

import gzip
import zipfile
from pathlib import Path

import pytest

import image_context
import spark_class_data

pytestmark = pytest.mark.unit

RETAINED = image_context.ROOT / "tools" / "images" / "java" / "spark_classes.gz"


def test_one_jar_names_all_jars_in_order(tmp_path: Path) -> None:
    names = [f"{letter * 40}-1.0.jar" for letter in "cab"]
    (tmp_path / "jars").mkdir()
    for name in (*names, "README"):
        (tmp_path / "jars" / name).touch()
    spark_class_data.main(["jar", str(tmp_path)])
    # Java maps the archive for a jar of this date alone, and not every builder gives files one.
    assert (tmp_path / spark_class_data.CLASS_PATH).stat().st_mtime == 315532800
    with zipfile.ZipFile(tmp_path / spark_class_data.CLASS_PATH) as made:
        assert {entry.date_time[0] for entry in made.infolist()} == {1980}
        text = made.read("META-INF/MANIFEST.MF").decode()
    assert max(map(len, text.splitlines())) <= 72
    assert text.endswith("\r\n")
    joined = text.replace("\r\n ", "").splitlines()
    assert joined[1] == f"Class-Path: {' '.join(f'jars/{name}' for name in sorted(names))}"


def test_a_packed_list_has_each_class_once_and_none_that_java_makes_up() -> None:
    first = "# NOTE: Do not modify this file.\njava/lang/Object\norg/a/B$$anon$1\n"
    second = "org/a/B$$anon$1\njdk/proxy1/$Proxy3\n@lambda-proxy org/a/B run\n"
    packed = spark_class_data.pack_lists([first, second])
    assert packed == spark_class_data.pack_lists([second, first])
    assert gzip.decompress(packed).decode().splitlines() == [
        "@lambda-proxy org/a/B run",
        "java/lang/Object",
        "org/a/B$$anon$1",
    ]


@pytest.mark.parametrize(
    "needed",
    [
        "org/apache/iceberg/aws/s3/S3FileIO",
        "org/apache/iceberg/rest/RESTCatalog",
        "org/apache/iceberg/spark/source/SparkTable",
        "org/apache/spark/executor/CoarseGrainedExecutorBackend",
        "org/apache/spark/scheduler/cluster/k8s/KubernetesClusterManager",
    ],
)
def test_the_list_that_is_kept_has_what_driver_and_executor_load(needed: str) -> None:
    assert needed in gzip.decompress(RETAINED.read_bytes()).decode().splitlines()
