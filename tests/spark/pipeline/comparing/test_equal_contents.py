"""An append-only table in which many rows are equal: each is compared, and mended, as itself."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark

HOT, COLD = {"id": 0, "name": "hot"}, {"id": 1, "name": "cold"}


class Events:
    """A table of six rows, of which five are equal, and its index."""

    def __init__(self, lake: Lake, url: str, folder: Path) -> None:
        self.lake, self.url = lake, url
        self.table = lake.create("id int, name string")
        for part in ("(0, 'hot'), (0, 'hot')", "(1, 'cold'), (0, 'hot')", "(0, 'hot'), (0, 'hot')"):
            lake.sql(f"insert into lake.{self.table} values {part}")
        entry = {"name": self.table, "index": "events", "appendOnly": True}
        self.pipeline = Harness(lake.session, url, folder, [entry])
        self.pipeline.sync()

    def remove(self, count: int) -> list[str]:
        """Remove documents of the hot content, and return their ids."""
        hot = sorted(self.list_ids(HOT))[-count:]
        for one in hot:
            oracle.request(f"{self.url}/events-000001/_doc/{one}", "DELETE")
        return hot

    def add(self, count: int) -> list[str]:
        """Write documents of the hot content, and return their ids."""
        made = [f"~{number}" for number in range(count)]
        for one in made:
            oracle.request(f"{self.url}/events-000001/_doc/{one}", "PUT", HOT)
        return made

    def list_ids(self, content: dict[str, Any]) -> list[str]:
        """Return the ids of the documents of a content."""
        documents = oracle.read_index(self.url, "events")
        return [key for key, document in documents.items() if document == content]

    def verify(self) -> tuple[Any, Any]:
        """Return what is missing and what is extra."""
        entry = self.pipeline.inspect(RunMode.VERIFY)
        assert entry["equal"] == (entry["missing"]["count"] + entry["extra"]["count"] == 0)
        return entry["missing"], entry["extra"]

    def assert_repaired(self, count: int) -> None:
        """Repair, and compare with what the table holds."""
        assert self.pipeline.inspect(RunMode.REPAIR)["repaired"] == count
        assert self.verify() == (make_samples([]), make_samples([]))
        assert (len(self.list_ids(HOT)), len(self.list_ids(COLD))) == (5, 1)


def make_samples(ids: list[str]) -> dict[str, Any]:
    return {"count": len(ids), "samples": ids}


@pytest.fixture
def events(spark: SparkSession, lake: Lake, clean_indices: str, tmp_path: Path) -> Events:
    return Events(lake, clean_indices, tmp_path)


def test_several_of_many_equal_rows_without_documents_are_named_and_written(events: Events) -> None:
    removed = events.remove(3)
    assert events.verify() == (make_samples(removed), make_samples([]))
    events.assert_repaired(3)


def test_a_document_of_other_bytes_and_the_same_content_stays_that_of_its_row(
    events: Events,
) -> None:
    """Its bytes are those of nobody, and those of its row are the surplus one's."""
    turned, *_ = events.list_ids(HOT)
    body = {"name": "hot", "id": 0}
    oracle.request(f"{events.url}/events-000001/_doc/{turned}", "PUT", body)
    made = events.add(1)
    assert events.verify() == (make_samples([]), make_samples(made))
    events.assert_repaired(1)
    assert turned in events.list_ids(HOT)


def test_several_of_many_equal_documents_without_rows_are_named_and_removed(events: Events) -> None:
    made = events.add(4)
    assert events.verify() == (make_samples([]), make_samples(made))
    events.assert_repaired(4)


def test_equal_rows_that_a_compaction_moved_are_still_the_same_rows(events: Events) -> None:
    events.lake.compact(events.table)
    events.pipeline.sync()
    assert events.verify() == (make_samples([]), make_samples([]))
    events.remove(2)
    missing, extra = events.verify()
    assert (missing["count"], extra["count"]) == (2, 0)
    events.assert_repaired(2)
