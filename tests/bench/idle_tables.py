"""Many tables that nobody changes, behind one JDBC catalog, and both that look at them."""

import json
import logging
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from icdc_api.job.run_files import RunRequest
from icdc_api.spec.pipeline import Pipeline
from icdc_api.status.pipeline_status import TableStatus
from icdc_operator.cluster.heads import table_heads
from icdc_operator.cluster.heads.catalog_secrets import CatalogSecrets
from icdc_operator.cluster.heads.connections import OfOwnProcess
from icdc_operator.cluster.heads.table_heads import Head, HeadReader
from icdc_operator.cluster.metrics import Metrics
from icdc_spark.iceberg.jvm import session as sessions
from icdc_spark.opensearch.client.connection import from_spec
from icdc_spark.opensearch.stores.state_store import StateStore
from icdc_spark.protocol.steps import StepKind
from icdc_spark.replication.context import TableContext
from icdc_spark.replication.table_run import TableRun
from icdc_spark.reporting.reporter import Reporter
from icdc_testing.lake.catalogs.head_lake import NAME, HeadLake
from icdc_testing.lake.catalogs.readers import ON_LOOPBACK
from icdc_testing.operator.adapter.fakes.api import FakeServer


class IdleTables:
    """`count` tables of so many commits each; files are named after their tables."""

    def __init__(self, folder: Path, *, count: int, commits: int) -> None:
        self._folder = folder
        lake = HeadLake(folder)
        lake.create("shop.t0")
        for _ in range(commits):
            lake.commit("shop.t0")
        first = lake.find_metadata_file("shop.t0")
        self.folder = first.parent
        self.bytes = first.stat().st_size
        self.names = [f"shop.t{number}" for number in range(count)]
        for name in self.names[1:]:
            copy = self.folder / f"00001-{uuid.uuid4()}.metadata.json"
            metadata = json.loads(first.read_text(encoding="utf-8"))
            copy.write_text(json.dumps({**metadata, "table-uuid": str(uuid.uuid4())}))
            lake.register(name, copy)
        self.properties = {**lake.properties, "warehouse": f"{folder}/warehouse"}
        lake.close()

    def make_pipeline(self, url: str) -> Pipeline:
        """Return one pipeline that follows all of them, from what is there now."""
        return Pipeline.model_validate(
            {
                "apiVersion": "icebergcdc.dev/v1alpha1",
                "kind": "IcebergCDCPipeline",
                "metadata": {"name": "idle"},
                "spec": {
                    "mode": "StreamOnly",
                    "catalog": {"name": NAME, "properties": self.properties},
                    "tables": [{"name": n, "identifierColumns": ["id"]} for n in self.names],
                    "sink": {"opensearch": {"hosts": [url]}},
                },
            }
        )


class OperatorPolls:
    """The reader of heads of an operator."""

    def __init__(self, pipeline: Pipeline) -> None:
        secrets = CatalogSecrets(FakeServer().make_api(), allowed=False)
        self._reader = HeadReader(secrets, Metrics(), OfOwnProcess(ON_LOOPBACK))
        self._tables = table_heads.list_branches(pipeline.spec)

    async def poll(self) -> None:
        """Look at each table once."""
        heads = await self._reader.read("default", self._tables)
        unseen = [head for head in heads.values() if not isinstance(head, Head)]
        assert not unseen, unseen[0]

    def close(self) -> None:
        """Let the catalog go."""
        self._reader.close()


class ApplicationPolls:
    """The tables of a run that goes on, looked at one after the other in one thread."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, folder: Path) -> None:
        request = RunRequest(
            run_id="run-1",
            pipeline=json.loads(pipeline.model_dump_json(by_alias=True)),
            owner="default/idle",
            epoch=1,
            continuous=True,
            report_path=str(folder / "report.json"),
        )
        spec = pipeline.spec
        connection = from_spec(spec.sink.opensearch, None)
        self._store = StateStore(connection)
        self._store.ensure_index()
        statuses = [TableStatus(name=table.name, index=table.index_name) for table in spec.tables]
        reporter, stop = Reporter(request, statuses), threading.Event()
        properties = spec.get_catalog(spec.tables[0]).properties
        self._contexts = [
            TableContext(
                request=request,
                spec=spec,
                table=table,
                connection=connection,
                store=self._store,
                open_session=lambda: sessions.open_table_session(spark, NAME, properties),
                reporter=reporter.get_table_reporter(table.name),
                stop=stop,
            )
            for table in spec.tables
        ]
        self._runs = [TableRun(context) for context in self._contexts]

    def settle(self) -> None:
        """Make the indices; all tables are caught up then."""
        for run in self._runs:
            while run.advance() is not StepKind.IDLE:
                pass

    def poll(self) -> None:
        """Look at each table once."""
        steps = {run.advance() for run in self._runs}
        assert steps == {StepKind.IDLE}, steps

    def close(self) -> None:
        """Close what was opened."""
        for context in self._contexts:
            context.close()
        self._store.close()


class Requests(logging.Handler):
    """What a client of OpenSearch asked for: a context manager, as the client logs it."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.asked: list[str] = []
        self._logger = logging.getLogger("opensearch")

    def emit(self, record: logging.LogRecord) -> None:
        """Note one request."""
        self.asked.append(record.getMessage())

    def __enter__(self) -> Sequence[str]:
        self._before = self._logger.level, self._logger.propagate
        self._logger.addHandler(self)
        self._logger.setLevel(logging.INFO)
        self._logger.propagate = False
        return self.asked

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._before[0])
        self._logger.propagate = self._before[1]
