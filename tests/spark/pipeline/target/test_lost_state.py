"""What readers see when the state document of an index is lost: the old index, until the new one
is complete, and never a run that cannot go on.
"""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.naming import STATE_INDEX
from icdc_api.spec.spark import Driver
from icdc_spark.process.scheduling.permits import count_permits
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle
from icdc_testing.target.node_calls import call

pytestmark = pytest.mark.spark

ALIAS = "things"
DEAD_LETTERS = f"{ALIAS}-dead-letters"

Losing = Callable[[str], None]


def lose_document(url: str) -> None:
    assert call(url, "DELETE", f"/{STATE_INDEX}/_doc/{ALIAS}").status == 200


def lose_index(url: str) -> None:
    assert call(url, "DELETE", f"/{STATE_INDEX}").status == 200


LOSSES = {"its document is deleted": lose_document, "all state is deleted": lose_index}


@pytest.fixture
def table(lake: Lake) -> str:
    lake.sql("create namespace if not exists lake.db")
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1,'10'), (2,'20'), (3,'30')")
    return name


@pytest.fixture
def pipeline(spark: SparkSession, proxy: FaultProxy, table: str, tmp_path: Path) -> Harness:
    entry = {"name": table, "identifierColumns": ["id"], "index": ALIAS}
    # What is no number is refused.
    return Harness(spark, proxy.url, tmp_path, [{**entry, "mapping": {"name": {"type": "long"}}}])


def list_served(url: str) -> list[str]:
    """Return the ids that readers of the alias find."""
    return sorted(oracle.read_index(url, ALIAS))


def list_aliased(url: str) -> list[str]:
    return sorted(oracle.request(f"{url}/_alias/{ALIAS}"))


def list_physical(url: str) -> list[str]:
    return sorted(oracle.request(f"{url}/{ALIAS}-0*/_settings"))


def read_state(url: str) -> dict[str, object]:
    source: dict[str, object] = oracle.request(f"{url}/{STATE_INDEX}/_doc/{ALIAS}")["_source"]
    return source


@pytest.mark.parametrize("loss", LOSSES)
def test_readers_keep_the_old_index_until_its_successor_is_complete(
    pipeline: Harness,
    proxy: FaultProxy,
    clean_indices: str,
    lake: Lake,
    table: str,
    loss: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pipeline.sync()
    LOSSES[loss](clean_indices)
    lake.sql(f"insert into lake.{table} values (4,'40')")
    held = proxy.hold("_bulk")
    with caplog.at_level(logging.INFO), ThreadPoolExecutor(1) as pool:
        running = pool.submit(pipeline.sync)
        held.wait()
        before = list_served(clean_indices), list_aliased(clean_indices)
        held.release()
        running.result(120)
    assert before == (["1", "2", "3"], [f"{ALIAS}-000001"])
    assert list_served(clean_indices) == ["1", "2", "3", "4"]
    # Also the cause of the Events `Gap` and `Reexporting`.
    assert f"to a new index: gap: the state document of {ALIAS}-000001 is gone" in caplog.text
    # What was served is remembered, and kept as any older index is.
    assert list_aliased(clean_indices) == [f"{ALIAS}-000002"]
    assert read_state(clean_indices)["previousIndices"] == [f"{ALIAS}-000001"]
    hidden = oracle.request(f"{clean_indices}/{STATE_INDEX}/_settings/index.hidden")
    assert hidden[STATE_INDEX]["settings"]["index"]["hidden"] == "true"
    # The next one takes its turn: nothing is left behind for ever.
    pipeline.resource["spec"]["resync"] = {"nonce": 1}
    pipeline.sync()
    assert list_physical(clean_indices) == [f"{ALIAS}-000002", f"{ALIAS}-000003"]


@pytest.mark.parametrize("loss", LOSSES)
def test_readers_of_changes_alone_are_never_led_to_an_empty_index(
    spark: SparkSession, clean_indices: str, lake: Lake, table: str, tmp_path: Path, loss: str
) -> None:
    entry = {"name": table, "identifierColumns": ["id"], "index": ALIAS}
    changelog = {"onGap": "Stop"}
    pipeline = Harness(
        spark, clean_indices, tmp_path, [entry], mode="StreamOnly", changelog=changelog
    )
    pipeline.sync()
    lake.sql(f"insert into lake.{table} values (4,'40'), (5,'50')")
    pipeline.sync()
    LOSSES[loss](clean_indices)
    lake.sql(f"delete from lake.{table} where id = 4")
    stalled = pipeline.run_to_stall()
    assert stalled.reason == "Gap"
    assert f"the state document of {ALIAS}-000001" in (stalled.message or "")
    assert (list_served(clean_indices), list_aliased(clean_indices)) == (
        ["4", "5"],
        [f"{ALIAS}-000001"],
    )
    # Each of the two ways out that the message names. The first is a request of this very run.
    new = pipeline.make_request()
    asked = {"nonce": 1, "id": new.epoch}
    assert pipeline.run(epoch=new.epoch, reexport=asked).outcome is None
    assert list_served(clean_indices) == ["1", "2", "3", "5"]
    LOSSES[loss](clean_indices)
    assert call(clean_indices, "DELETE", f"/{ALIAS}-000002/_alias/{ALIAS}").status == 200
    again = pipeline.run(reexport=asked)
    assert again.tables[0].reason == "Gap", "it was honoured, for all that is known"
    changelog["onGap"] = "Reexport"
    lake.sql(f"insert into lake.{table} values (6,'60')")
    pipeline.sync()
    assert list_served(clean_indices) == ["1", "2", "3", "5", "6"]


def test_a_half_filled_index_that_nobody_remembers_goes_when_the_new_one_is_served(
    pipeline: Harness, proxy: FaultProxy, clean_indices: str, lake: Lake, table: str
) -> None:
    pipeline.sync()
    pipeline.resource["spec"]["resync"] = {"nonce": 1}
    held = proxy.hold("_bulk")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(pipeline.run)
        held.wait()
        lose_document(clean_indices)
        held.release()
        outcome = running.result(120).outcome
    assert outcome is not None
    assert list_physical(clean_indices) == [f"{ALIAS}-000001", f"{ALIAS}-000002"]
    pipeline.sync()
    # Its number is not used again: what still arrives for it finds no index.
    assert list_physical(clean_indices) == [f"{ALIAS}-000001", f"{ALIAS}-000003"]
    assert list_aliased(clean_indices) == [f"{ALIAS}-000003"]


def test_the_number_of_an_abandoned_export_is_not_used_again(
    pipeline: Harness, proxy: FaultProxy, clean_indices: str
) -> None:
    pipeline.sync()
    pipeline.resource["spec"]["resync"] = {"nonce": 1}
    held = proxy.hold("_bulk")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(pipeline.sync)
        held.wait()
        assert call(clean_indices, "DELETE", f"/{ALIAS}-000002").status == 200
        held.release()
        running.result(120)
    assert list_aliased(clean_indices) == [f"{ALIAS}-000003"]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("pins", "numbers"),
    [
        pytest.param("Auto", (1_772_366_672, 1_772_366_673), id="the table has a tag"),
        pytest.param("Never", (1, 2), id="nothing says that there was one"),
    ],
)
def test_an_index_that_nobody_remembers_gives_its_number_to_no_other(
    pipeline: Harness, clean_indices: str, loss: str, pins: str, numbers: tuple[int, int]
) -> None:
    pipeline.resource["spec"]["changelog"] = {"pinSnapshots": pins}
    pipeline.sync()
    LOSSES[loss](clean_indices)
    assert call(clean_indices, "DELETE", f"/{ALIAS}-000001").status == 200
    for nonce, number in enumerate(numbers):
        pipeline.resource["spec"]["resync"] = {"nonce": nonce}
        (status,) = pipeline.run(epoch=1_772_366_671_376 + nonce).tables
        assert status.reason is None
        assert list_aliased(clean_indices) == [f"{ALIAS}-{number:06d}"]
        assert list_served(clean_indices) == ["1", "2", "3"]


def test_many_tables_that_lost_all_state_at_once_are_served_while_they_take_turns(
    spark: SparkSession, proxy: FaultProxy, clean_indices: str, lake: Lake, tmp_path: Path
) -> None:
    names = []
    for number in range(count_permits(Driver()) + 4):
        names.append(lake.create("id int"))
        lake.sql(f"insert into lake.{names[-1]} values ({number})")
    entries = [
        {"name": name, "identifierColumns": ["id"], "index": f"many{number:02d}"}
        for number, name in enumerate(names)
    ]
    pipeline = Harness(spark, proxy.url, tmp_path, entries)
    assert {table.reason for table in pipeline.run().tables} == {None}
    lose_index(clean_indices)
    proxy.clear()
    aliases = [str(entry["index"]) for entry in entries]
    # Every table that has its turn comes to here, where it records its export, and waits; the
    # others have begun nothing.
    recorded = r"^/icdc-state/_doc/many\d+\?if_seq_no"
    holds = [proxy.hold(recorded, method="PUT") for _ in range(count_permits(Driver()))]
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(pipeline.run)
        for held in holds:
            held.wait()
        made = oracle.request(f"{clean_indices}/many*/_settings")
        counts = [call(clean_indices, "GET", f"/{alias}/_count").json["count"] for alias in aliases]
        for held in holds:
            held.release()
        assert {table.reason for table in running.result(120).tables} == {None}
    assert counts == [1] * len(aliases)
    assert len(made) == len(aliases) + count_permits(Driver())
    for number, alias in enumerate(aliases):
        assert sorted(oracle.read_index(clean_indices, alias)) == [str(number)]
        assert list(oracle.request(f"{clean_indices}/_alias/{alias}")) == [f"{alias}-000002"]


@pytest.mark.parametrize("loss", LOSSES)
def test_a_table_with_refused_rows_is_exported_again(
    pipeline: Harness, clean_indices: str, lake: Lake, table: str, loss: str
) -> None:
    lake.sql(f"insert into lake.{table} values (4,'none'), (5,'none'), (6,'none')")
    pipeline.sync()
    lake.sql(f"update lake.{table} set name = 'still none' where id = 4")
    pipeline.sync()
    LOSSES[loss](clean_indices)
    # One is good now, one is refused as before, one is gone.
    lake.sql(f"update lake.{table} set name = '50' where id = 5")
    lake.sql(f"delete from lake.{table} where id = 6")
    for _ in range(2):
        assert pipeline.sync().dead_letters == 1
    assert list_served(clean_indices) == ["1", "2", "3", "5"]
    letter_rows = oracle.read_index(clean_indices, DEAD_LETTERS)
    assert {key: letter["document"] for key, letter in letter_rows.items()} == {
        "4": '{"id":4,"name":"still none"}'
    }
