"""Nonces of resync from the reconcile core to the index: a re-export is made once, and is made.

So is a rollback, which takes readers back to the index that a re-export has replaced.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.errors import TargetInvalid
from icdc_api.status.conditions import ConditionType
from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.opensearch.stores import aliases
from icdc_spark.opensearch.stores.state_store import StateStore
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.runs.local_runner import RepeatedPipeline
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark


@pytest.fixture
def tables(lake: Lake) -> list[str]:
    lake.sql("create namespace if not exists lake.db")
    names = [lake.create("id int, name string") for _ in range(2)]
    for name in names:
        lake.sql(f"insert into lake.{name} values (1,'a'), (2,'b')")
    return names


@pytest.fixture
def pipeline(
    spark: SparkSession, clean_indices: str, tmp_path: Path, tables: list[str]
) -> RepeatedPipeline:
    entries = [
        {"name": name, "identifierColumns": ["id"], "index": f"things{position}"}
        for position, name in enumerate(tables)
    ]
    return RepeatedPipeline(spark, Harness(spark, clean_indices, tmp_path, entries), tmp_path)


@pytest.fixture
def served(clean_indices: str) -> Callable[[], list[str]]:
    """The physical indices that readers find, in the order of the tables."""

    def list_names() -> list[str]:
        aliases = oracle.request(f"{clean_indices}/_alias/things*")
        return sorted(name for name, index in aliases.items() if index["aliases"])

    return list_names


def test_mode_and_tables_that_are_taken_out_of_the_spec_start_no_export(
    pipeline: RepeatedPipeline, tables: list[str], served: Callable[[], list[str]]
) -> None:
    pipeline.run()
    status = pipeline.run(resync={"nonce": 4, "mode": "Verify"})
    assert status.holds(ConditionType.VERIFIED)
    pipeline.run(resync={"nonce": 4})
    assert served() == ["things0-000001", "things1-000001"]
    pipeline.run(resync={"nonce": 5, "tables": [tables[0]]})
    assert served() == ["things0-000002", "things1-000001"]
    pipeline.run(resync={"nonce": 5})
    assert served() == ["things0-000002", "things1-000001"]


@pytest.mark.sampled
@pytest.mark.parametrize("nonce", [1, 2, 3, 4])
def test_a_pipeline_that_is_made_again_honours_its_nonces_whatever_the_one_before_had(
    pipeline: RepeatedPipeline, served: Callable[[], list[str]], nonce: int
) -> None:
    pipeline.run()
    pipeline.run(resync={"nonce": 3})
    assert served() == ["things0-000002", "things1-000002"]
    _make_again(pipeline)
    pipeline.run(resync={"nonce": 0})
    assert served() == ["things0-000002", "things1-000002"], "it goes on where the other one was"
    pipeline.run(resync={"nonce": nonce})
    assert served() == ["things0-000003", "things1-000003"]
    pipeline.run(resync={"nonce": nonce})
    assert served() == ["things0-000003", "things1-000003"]


def test_a_pipeline_that_is_made_again_from_the_same_file_exports_nothing_again(
    pipeline: RepeatedPipeline, served: Callable[[], list[str]]
) -> None:
    pipeline.run()
    pipeline.run(resync={"nonce": 3})
    _make_again(pipeline)
    pipeline.run()
    assert served() == ["things0-000002", "things1-000002"]


def test_a_run_that_is_lost_after_the_swap_is_not_followed_by_a_second_export(
    pipeline: RepeatedPipeline, served: Callable[[], list[str]], clean_indices: str
) -> None:
    pipeline.run()
    pipeline.run(resync={"nonce": 1})
    first = next(reversed(pipeline.runs.requests.values()))
    assert first.reexport is not None
    store = StateStore(Connection(hosts=(clean_indices,)))
    stored = store.load("things0")
    store.close()
    assert stored is not None
    assert (stored.document.resync_nonce, stored.document.resync_id) == (1, first.reexport.id)
    # The same request once more, as after a crash between the swap and the last report.
    pipeline.harness.run(reexport=first.reexport, epoch=first.epoch + 1)
    assert served() == ["things0-000002", "things1-000002"]


ANSWERED: dict[str, tuple[str, str, object, str]] = {
    # What somebody did to the index, and the reason by which its table is stalled.
    "its mapping's _meta replaced": ("PUT", "_mapping", {"_meta": {}}, "StateCorrupt"),
    "closed": ("POST", "_close", None, "TargetReadOnly"),
}


@pytest.mark.parametrize("what", ANSWERED)
def test_a_raised_nonce_counts_more_than_what_is_wrong_with_the_index(
    pipeline: RepeatedPipeline,
    tables: list[str],
    served: Callable[[], list[str]],
    lake: Lake,
    clean_indices: str,
    what: str,
) -> None:
    pipeline.run()
    method, path, body, reason = ANSWERED[what]
    oracle.request(f"{clean_indices}/things0-000001/{path}", method, body)
    lake.sql(f"alter table lake.{tables[0]} add column note string")
    lake.sql(f"insert into lake.{tables[0]} values (3,'c','n')")
    status = pipeline.run()
    assert [table.reason for table in status.tables] == [reason, None]
    status = pipeline.run(resync={"nonce": 1, "tables": [tables[0]]})
    assert [table.reason for table in status.tables] == [None, None], status.tables
    assert served() == ["things0-000002", "things1-000001"]
    assert oracle.read_index(clean_indices, "things0").keys() == {"1", "2", "3"}


TEXT = {"mapping": {"name": {"type": "text"}}}


def test_readers_are_switched_back_and_forth_and_what_was_committed_since_is_applied(
    pipeline: RepeatedPipeline,
    tables: list[str],
    served: Callable[[], list[str]],
    lake: Lake,
    clean_indices: str,
) -> None:
    one, other = pipeline.harness.resource["spec"]["tables"]
    pipeline.run()
    lake.sql(f"insert into lake.{tables[0]} values (3,'c')")
    pipeline.run(tables=[one | TEXT, other])
    assert served() == ["things0-000002", "things1-000001"]
    for name in tables:
        lake.sql(f"insert into lake.{name} values (4,'d')")
    asked = {"resync": {"nonce": 1, "mode": "Rollback", "tables": tables}}
    status = pipeline.run(**asked)
    assert [table.reason for table in status.tables] == ["RollbackRefused", "RollbackRefused"]
    refused = [str(table.message) for table in status.tables]
    assert (
        "asks for other documents than things0-000001 holds (the mapping overrides changed"
        in refused[0]
    )
    assert "no earlier index of it is recorded" in refused[1]
    assert served() == ["things0-000002", "things1-000001"]
    # It is done once it can be; a request without names leaves the other table as it is.
    status = pipeline.run(tables=[one, other])
    assert [table.reason for table in status.tables] == [None, "RollbackRefused"]
    assert served() == ["things0-000001", "things1-000001"]
    assert "RolledBack" in pipeline.reported
    status = pipeline.run(tables=[one | TEXT, other], resync={"nonce": 2, "mode": "Rollback"})
    assert [table.reason for table in status.tables] == [None, None]
    assert served() == ["things0-000002", "things1-000001"]
    lake.sql(f"delete from lake.{tables[0]} where id = 1")
    status = pipeline.run(resync={"nonce": 3, "mode": "Verify"})
    assert all(table.verification and table.verification.equal for table in status.tables)
    assert oracle.read_index(clean_indices, "things0").keys() == {"2", "3", "4"}
    mapping = oracle.request(f"{clean_indices}/things0/_mapping")["things0-000002"]["mappings"]
    assert mapping["properties"]["name"]["type"] == "text"


COUNTED = {"mapping": {"name": {"type": "long"}}}
"""No name of these tables is a number: each row is refused."""


@pytest.fixture
def list_behind(clean_indices: str) -> Callable[[str], list[str]]:
    """The physical indices behind an alias."""

    def list_names(alias: str) -> list[str]:
        return sorted(oracle.request(f"{clean_indices}/_alias/{alias}"))

    return list_names


def test_a_rollback_that_was_interrupted_is_finished_by_the_next_run(
    pipeline: RepeatedPipeline,
    list_behind: Callable[[str], list[str]],
    clean_indices: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other = pipeline.harness.resource["spec"]["tables"]
    pipeline.run()
    oracle.request(f"{clean_indices}/things0-000001/_alias/reports", "PUT")
    status = pipeline.run(tables=[one | COUNTED, other])
    assert [table.dead_letters for table in status.tables] == [2, 0]
    assert list_behind("reports") == ["things0-000002"]

    def fail(*_: object, **__: object) -> list[str]:
        raise TargetInvalid("as if the driver had died here, and at once")

    # Nothing but the state document says so yet.
    with monkeypatch.context() as patched:
        patched.setattr(aliases, "move_alias", fail)
        status = pipeline.run(tables=[one, other], resync={"nonce": 1, "mode": "Rollback"})
    assert [table.reason for table in status.tables] == ["TargetInvalid", None]
    assert list_behind("things0") == list_behind("reports") == ["things0-000002"]
    assert len(oracle.read_index(clean_indices, "things0-dead-letters")) == 2
    # Another request takes nothing back, as this one is honoured.
    status = pipeline.run(resync={"nonce": 2, "mode": "Verify"})
    assert [table.reason for table in status.tables] == [None, None]
    assert "RolledBack" in pipeline.reported
    assert list_behind("things0") == list_behind("reports") == ["things0-000001"]
    assert oracle.read_index(clean_indices, "things0-dead-letters") == {}
    assert oracle.read_index(clean_indices, "things0").keys() == {"1", "2"}


def test_an_export_that_is_requested_takes_the_place_of_a_rollback_that_waits(
    pipeline: RepeatedPipeline, tables: list[str], served: Callable[[], list[str]]
) -> None:
    pipeline.run()
    back = {"mode": "Rollback", "tables": tables}
    status = pipeline.run(resync={"nonce": 1, **back})
    assert [table.reason for table in status.tables] == ["RollbackRefused", "RollbackRefused"]
    status = pipeline.run(resync={"nonce": 2, "tables": tables})
    assert [table.reason for table in status.tables] == [None, None]
    assert served() == ["things0-000002", "things1-000002"]
    pipeline.run()
    assert served() == ["things0-000002", "things1-000002"], "the rollback is over"
    # And no number is used again, whatever was left.
    pipeline.run(resync={"nonce": 3, **back})
    assert served() == ["things0-000001", "things1-000001"]
    limit = {"keepIndices": 0, **pipeline.harness.resource["spec"]["sink"]["opensearch"]}
    pipeline.run(sink={"opensearch": limit})
    status = pipeline.run(resync={"nonce": 4, "mode": "Rollback"})
    assert [table.reason for table in status.tables] == [None, None]
    assert served() == ["things0-000001", "things1-000001"], "no earlier index is left"
    pipeline.run(resync={"nonce": 5})
    assert served() == ["things0-000003", "things1-000003"]


def test_a_comparison_that_is_requested_ends_a_rollback_that_waits(
    pipeline: RepeatedPipeline, tables: list[str], served: Callable[[], list[str]]
) -> None:
    pipeline.run()
    status = pipeline.run(resync={"nonce": 1, "mode": "Rollback", "tables": tables})
    assert [table.reason for table in status.tables] == ["RollbackRefused", "RollbackRefused"]
    status = pipeline.run(resync={"nonce": 2, "mode": "Verify", "tables": tables})
    assert [table.reason for table in status.tables] == [None, None]
    assert served() == ["things0-000001", "things1-000001"]
    assert [table.reason for table in pipeline.run().tables] == [None, None]


def _make_again(pipeline: RepeatedPipeline) -> None:
    """Its status goes with it; the indices and their state documents stay."""
    shutil.rmtree(pipeline.folder / "state")
    (pipeline.folder / "state" / "runs").mkdir(parents=True)
    pipeline.runs.done.clear()
