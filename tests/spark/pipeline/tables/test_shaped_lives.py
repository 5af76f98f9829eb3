"""A shaped, routed index through everything that happens to one, of tables written in both ways.

What it must hold is worked out from the rows in Python.
"""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import Reexport
from icdc_testing.lake.lake import COPY_ON_WRITE, MERGE_ON_READ, Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.tables.fields import derive, take
from icdc_testing.tables.long_values import LONG, UNLIMITED, mend
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark

ALIAS = "lived"
TENANTS = ("acme", "a|b")
SHARE = 60
"""What `share` divides; it fails on rows whose `n` is 0."""


def make_fields(divided: int) -> list[Any]:
    return [
        take("key.tenant", "tenant"),
        take("key.number", "id"),
        take("text", "name", mapping=UNLIMITED),
        derive("share", f"{divided} / n"),
        derive(
            "lines",
            "transform(tags, t -> named_struct('tag', t, 'n', n))",
            mapping={"type": "nested"},
        ),
    ]


class Life:
    """A pipeline of one shaped table, which is changed and checked."""

    def __init__(self, spark: SparkSession, lake: Lake, url: str, folder: Path, table: str) -> None:
        self.lake, self.url, self.table = lake, url, table
        self.divided, self.mended = SHARE, False
        entry = {
            "name": table,
            "index": ALIAS,
            "identifierColumns": ["tenant", "id"],
            "routing": ["tenant"],
            "fields": make_fields(self.divided),
        }
        self.harness = Harness(spark, url, folder, [entry])
        settings = self.harness.resource["spec"]["sink"]["opensearch"]["indexSettings"]
        settings["number_of_shards"] = 5

    def sql(self, text: str) -> None:
        """Run SQL in which {} stands for the table."""
        self.lake.sql(text.format(f"lake.{self.table}"))

    def run(self, mode: RunMode = RunMode.RUN, **changes: Any) -> None:
        """Do one run, which has to come through, and check the index."""
        report = self.harness.run(mode, **changes)
        assert report.outcome is None, report.outcome
        assert [table.reason for table in report.tables] == [None], report.tables
        self.check()

    def check(self) -> None:
        """Assert that each document is there once, where its tenant says, and equals its row."""
        hits = list(oracle.read_hits(self.url, ALIAS))
        found = {hit["_id"]: (hit["_routing"], hit["_source"]) for hit in hits}
        assert len(found) == len(hits)
        assert found == self.work_out()
        verdict = self.harness.inspect(RunMode.VERIFY)
        assert verdict["equal"] is True, verdict
        refused = self.lake.sql(f"select count(*) from lake.{self.table}")[0][0] - len(found)
        assert verdict["refused"] == refused

    def work_out(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Return routing and document of each row that has one, by id."""
        made = {}
        for row in self.lake.sql(f"select * from lake.{self.table}"):
            if row.n == 0 or (row.name == LONG and not self.mended):
                continue
            routing = row.tenant.replace("|", r"\|")
            document = {
                "key": {"tenant": row.tenant, "number": row.id},
                "share": self.divided / row.n,
                "lines": [{"tag": tag, "n": row.n} for tag in row.tags],
            }
            text = {} if row.name is None else {"text": row.name}
            made[f"{routing}|{row.id}"] = (routing, {**document, **text})
        return made

    def read_serving(self) -> str:
        """Return the physical index that readers use."""
        (name,) = oracle.request(f"{self.url}/_alias/{ALIAS}")
        return name

    def spoil(self) -> None:
        """Delete a document, edit another, and add one where its id does not say."""
        url = f"{self.url}/{self.read_serving()}/_doc"
        oracle.request(f"{url}/acme%7C3?routing=acme", "DELETE")
        oracle.request(f"{url}/acme%7C6?routing=acme", "PUT", {"share": 1.0})
        oracle.request(f"{url}/acme%7C99?routing=other", "PUT", {"share": 1.0})
        verdict = self.harness.inspect(RunMode.VERIFY)
        assert [verdict[kind]["samples"] for kind in ("missing", "different")] == [
            *(["acme|3"], ["acme|6"]),
        ]
        assert verdict["extra"]["samples"] == ["acme|99"]


@pytest.fixture(params=[(COPY_ON_WRITE, 2), (MERGE_ON_READ, 3)], ids=["cow-v2", "mor-v3"])
def life(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    lake: Lake,
    clean_indices: str,
    tmp_path: Path,
) -> Life:
    mode, version = request.param
    columns = "id int, tenant string, n int, name string, tags array<string>, notes string"
    table = lake.create(columns, mode=mode, version=version)
    lake.sql(
        f"insert into lake.{table} select id, tenant, id % 4, if(id = 5, '{LONG}', null), "
        f"array('x', tenant), '' from range(12) "
        f"cross join (select explode(array{TENANTS}) tenant)"
    )
    return Life(spark, lake, clean_indices, tmp_path, table)


def test_a_shaped_and_routed_index_lives_through_everything(life: Life) -> None:
    life.run()
    life.sql("update {} set n = case id when 1 then 0 else 3 end where id in (1, 4)")
    life.sql("delete from {} where id = 2")
    life.sql("update {} set notes = 'nobody reads it'")
    life.sql(
        "insert into {} values (20, 'acme', 5, null, array(), ''), (20, 'new', 0, '', null, '')"
    )
    life.run()

    life.spoil()
    life.harness.inspect(RunMode.REPAIR)
    life.check()

    life.run(reexport=Reexport(nonce=1, tables=(), id=1))
    assert life.read_serving() == f"{ALIAS}-000002"
    life.sql("update {} set n = 6 where id in (1, 3)")
    life.sql("delete from {} where id = 20 and tenant = 'acme'")
    life.run()
    life.run(reexport=Reexport(nonce=2, tables=(), id=2, rollback=True))
    assert life.read_serving() == f"{ALIAS}-000001"

    mend(life.url, life.read_serving(), "text")
    life.mended = True
    life.harness.inspect(RunMode.REPLAY)
    life.check()
    life.sql("update {} set n = 2 where id = 8")
    life.run()

    # Another expression is another index, whose mapping nobody has mended.
    life.divided, life.mended = 30, False
    life.harness.resource["spec"]["tables"][0]["fields"] = make_fields(30)
    life.run()
    assert life.read_serving() == f"{ALIAS}-000003"
