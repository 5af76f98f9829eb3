"""Catalogs that have no time-outs get some, unless the pipeline sets its own."""

import pytest

from icdc_spark.iceberg.jvm.clients.time_outs import add_time_outs

pytestmark = pytest.mark.unit

REST = {
    "rest.client.connection-timeout-ms": "10000",
    "rest.client.socket-timeout-ms": "60000",
}
HIVE = {"hadoop.hive.metastore.client.socket.timeout": "60s"}


@pytest.mark.parametrize(
    ("properties", "added"),
    [
        ({"type": "rest"}, REST),
        ({"catalog-impl": "org.apache.iceberg.rest.RESTCatalog"}, REST),
        ({"type": "hive"}, HIVE),
        ({}, HIVE),
        (
            {"type": "jdbc", "uri": "jdbc:postgresql://db/lake"},
            {"jdbc.connectTimeout": "10", "jdbc.socketTimeout": "60"},
        ),
        (
            {"type": "jdbc", "uri": "jdbc:mysql://db/lake"},
            {"jdbc.connectTimeout": "10000", "jdbc.socketTimeout": "60000"},
        ),
        ({"type": "jdbc", "uri": "jdbc:sqlite:/lake.db"}, {}),
        ({"type": "hadoop"}, {}),
        ({"type": "glue"}, {}),
        ({"catalog-impl": "com.example.Catalog"}, {}),
    ],
)
def test_a_catalog_that_would_wait_for_ever_does_not(
    properties: dict[str, str], added: dict[str, str]
) -> None:
    assert add_time_outs(properties) == {**added, **properties}


def test_what_the_pipeline_says_counts() -> None:
    mine = {"type": "rest", "rest.client.socket-timeout-ms": "5"}
    assert add_time_outs(mine) == {**REST, **mine}
