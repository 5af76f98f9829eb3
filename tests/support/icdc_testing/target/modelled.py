"""A table's context in front of the model of OpenSearch; the client and the stores are real."""

import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

from icdc_api.job.run_files import Reexport, RunRequest
from icdc_api.status.pipeline_status import TableStatus
from icdc_spark.documents.document_spec import resolve_spec
from icdc_spark.documents.schema import parse_schema
from icdc_spark.documents.wishes import DocumentWishes
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.opensearch.stores.indices import Ownership, with_ownership
from icdc_spark.opensearch.stores.state_store import StateStore, Stored
from icdc_spark.protocol.steps import Step, StepKind
from icdc_spark.replication import export_swap
from icdc_spark.replication.checks.index_check import IndexCheck
from icdc_spark.replication.context import TableContext
from icdc_spark.reporting.reporter import Reporter
from icdc_testing.operator.deciding.pipelines import make_spec
from icdc_testing.simulation.model.connection import ModelConnection
from icdc_testing.simulation.model.target import Answer, ModelTarget
from icdc_testing.target.replaced_indices import FIRST, SECOND, THIRD

NAMES = ("orders", "orders-of-reports")
"""The alias of the table, and one that somebody else gave to its index."""
DEAD_LETTERS = "orders-dead-letters"
OWNER = Ownership(pipeline="default/shop", alias="orders")


class RunKilledError(BaseException):
    """The process is no more."""


class TargetConnection(ModelConnection):
    """Asks the model; after `left` changes the process dies."""

    target: ModelTarget
    left: int | None = None
    is_answered = True

    def __init__(self, host: str = "localhost", **_: Any) -> None:
        super().__init__(host=host)

    def answer(
        self, method: str, url: str, params: Mapping[str, Any], body: Any, tag: str
    ) -> Answer:
        """Ask the model; die instead, or after it, where no change is left."""
        counts = method != "GET" and not url.endswith(("_refresh", "_search", "_count"))
        dies = counts and type(self).left == 0
        if dies and not self.is_answered:
            raise RunKilledError
        answer = self.target.handle(method, url, params, body)
        if dies:
            raise RunKilledError
        if counts and self.left is not None:
            type(self).left = self.left - 1
        return answer


def fill(target: ModelTarget) -> None:
    """Give it three indices of the table, of which readers use the second, and two dead letters.

    The row of the first of these has a document in the first index.
    """
    target.indices.clear()
    for name in (FIRST, SECOND, THIRD, DEAD_LETTERS):
        index = target.make(name, {"mappings": with_ownership({}, OWNER)})
        index.uuid = f"uuid of {name}"
    target.indices[SECOND].aliases.update({name: {} for name in NAMES})
    for ordinal in (1, 2):
        content = {"id": f"row {ordinal}", "ordinal": ordinal}
        target.indices[DEAD_LETTERS].write(f"row {ordinal}", content, 0.0)
    target.indices[FIRST].write("row 1", {}, 0.0)


class SilentReporter(Reporter):
    """Writes no file."""

    def update(self, name: str, changes: dict[str, Any]) -> None:
        """Forget it."""


def build_context() -> TableContext:
    """Return the table's context in a run that was asked for a rollback of all tables."""
    connection = Connection(hosts=("http://127.0.0.1:1",))
    request = RunRequest(
        run_id="run-4",
        pipeline={},
        owner=OWNER.pipeline,
        epoch=4,
        report_path="/nowhere",
        reexport=Reexport(nonce=1, tables=(), id=77, rollback=True),
    )
    spec = make_spec(
        tables=[{"name": "shop.orders", "index": "orders", "identifierColumns": ["id"]}],
        changelog={"pinSnapshots": "Never", "rebuildAbove": 0.5},
    )
    (table,) = spec.tables
    status = TableStatus(name=table.name, index=table.index_name)
    store = StateStore(connection)
    made = TableContext(
        request=request,
        spec=spec,
        table=table,
        connection=connection,
        store=store,
        open_session=lambda: cast("Any", SimpleNamespace(spark=None, close=lambda: None)),
        reporter=SilentReporter(request, [status]).get_table_reporter(table.name),
        stop=threading.Event(),
    )
    made.client.patience = 0.0
    # There is no older run, for whose requests it would wait seconds.
    made.outwaited.set()
    return made


TABLE = cast(
    "IcebergTable", SimpleNamespace(last_sequence_number=5, snapshots={}, uuid="t-1", tags={})
)
BACK = Step(kind=StepKind.ROLLBACK, index=FIRST)


def switch(context: TableContext, stored: Stored) -> Stored:
    return export_swap.roll_back(context, TABLE, stored, BACK, IndexCheck(loss=None))


def list_served(target: ModelTarget) -> list[list[str]]:
    return [sorted(target.find_aliased(name)) for name in NAMES]


def list_dead_letters(target: ModelTarget) -> list[str]:
    return sorted(target.indices[DEAD_LETTERS].documents)


DOCUMENTS = resolve_spec(
    "shop.orders",
    parse_schema(
        '{"type": "struct", "fields": [{"id": 1, "name": "id", "required": true, "type": "int"}]}'
    ),
    DocumentWishes(identifier_columns=("id",)),
)
