"""Drive the real application inside the test's own Spark, one run at a time.

No process is started, so a run costs a second instead of ten; what needs processes (kills, the
command line) is tested with processes elsewhere.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunReport, RunRequest
from icdc_api.spec.pipeline import Pipeline
from icdc_api.status.pipeline_status import PipelineStatus, TableStatus
from icdc_operator.core.asked import resyncs
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_testing.lake.lake import CATALOG

_EPOCHS = itertools.count(1)

Resource = dict[str, Any]


def read_catalog_properties(spark: SparkSession) -> dict[str, str]:
    """Return the properties of the test session's catalog, as a pipeline would give them."""
    prefix = f"spark.sql.catalog.{CATALOG}"
    return {
        "type": spark.conf.get(f"{prefix}.type") or "",
        "warehouse": spark.conf.get(f"{prefix}.warehouse") or "",
    }


class Harness:
    """One pipeline over tables of the test's catalog and indices of the test's node."""

    def __init__(
        self,
        spark: SparkSession,
        url: str,
        folder: Path,
        tables: Sequence[Mapping[str, Any]],
        *,
        name: str = "test",
        **spec: Any,
    ) -> None:
        self.spark = spark
        self.folder = folder
        self.resource: Resource = {
            "apiVersion": "icebergcdc.dev/v1alpha1",
            "kind": "IcebergCDCPipeline",
            "metadata": {"name": name},
            "spec": {
                "catalog": {"name": CATALOG, "properties": read_catalog_properties(spark)},
                "tables": [dict(table) for table in tables],
                "sink": {
                    "opensearch": {
                        "hosts": [url],
                        "indexSettings": {"number_of_replicas": 0},
                    }
                },
                # The shortest: a run that tries a table again takes no longer than it must.
                "retry": {"initialSeconds": 1},
                **spec,
            },
        }

    def make_request(self, mode: RunMode = RunMode.RUN, **changes: Any) -> RunRequest:
        """Return the request of the next run, with a higher epoch than any before."""
        epoch = next(_EPOCHS)
        spec = Pipeline.model_validate(self.resource).spec
        fields = {
            "run_id": f"run-{epoch}",
            "mode": mode,
            "pipeline": self.resource,
            "reexport": resyncs.build_reexport(PipelineStatus(), spec),
            "owner": f"default/{self.resource['metadata']['name']}",
            "epoch": epoch,
            "poll_seconds": 1,
            "report_path": str(self.folder / f"report-{epoch}.json"),
        }
        return RunRequest.model_validate({**fields, **changes})

    def run(self, mode: RunMode = RunMode.RUN, **changes: Any) -> RunReport:
        """Run to the end and returns the last report."""
        request = self.make_request(mode, **changes)
        PipelineRun(request, self.spark).run()
        report = RunReport.read(Path(request.report_path))
        assert report.finished
        return report

    def sync(self) -> TableStatus:
        """Run and return the only table, which must be in sync."""
        report = self.run()
        assert report.outcome is None, report.outcome
        (table,) = report.tables
        assert table.reason is None, f"{table.reason}: {table.message}"
        return table

    def run_to_stall(self) -> TableStatus:
        """Run and return the only table, which must have stalled."""
        (table,) = self.run().tables
        assert table.reason is not None, f"the table came through: {table}"
        return table

    def inspect(self, mode: RunMode) -> dict[str, Any]:
        """Run and return the only table's entry in the answer of plan, verify or repair."""
        report = self.run(mode)
        assert report.outcome is None, report.outcome
        assert report.result is not None
        (entry,) = report.result["tables"]
        answer: dict[str, Any] = entry
        return answer
