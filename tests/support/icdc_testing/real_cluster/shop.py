"""A pipeline of the tests on the cluster: its tables, its resource, and what became of it.

Tables are written by pyiceberg, on this host: somebody else than the application. What an index
must hold is worked out from the rows that pyiceberg reads back.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from icdc_testing.real_cluster.services.spark_operator import QUICK_JVM
from icdc_testing.real_cluster.used import UsedCluster
from icdc_testing.target import node_calls

Resource = dict[str, Any]
Documents = dict[str, tuple[int, object]]

CREDENTIALS = "lake-credentials"
RUN_SECONDS = 420.0
"""A run takes 40 to 100 s here; a loaded machine needs several times that."""
_PAUSE = 1.0
"""Between two looks, in seconds: each starts a kubectl, on cores that have enough to do."""
_SECRET_KEYS = ("s3.access-key-id", "s3.secret-access-key")

MODEST = {
    # Many pods share two cores; what they ask for is not what they take.
    "spark.kubernetes.driver.request.cores": "100m",
    "spark.kubernetes.executor.request.cores": "100m",
    "spark.sql.shuffle.partitions": "2",
}
"""With the JVMs that runs get where nobody says otherwise."""
SMALL = {
    **MODEST,
    "spark.driver.extraJavaOptions": QUICK_JVM,
    "spark.executor.extraJavaOptions": QUICK_JVM,
}


@dataclass
class Shop:
    """One pipeline in a namespace whose pipelines the operator looks after."""

    cluster: UsedCluster
    namespace: str
    name: str = "shop"
    catalog: Catalog = field(init=False)

    def __post_init__(self) -> None:
        self.catalog = load_catalog("tests", type="rest", **self.cluster.facts["catalog"])
        self.catalog.create_namespace_if_not_exists(self.prefix)

    @property
    def scratch(self) -> Path:
        """The folder of the node where only this pipeline's runs put what they shuffle."""
        folder = Path(self.cluster.facts["scratch"]) / self.prefix
        folder.mkdir(exist_ok=True)
        folder.chmod(0o1777)
        return folder

    @property
    def prefix(self) -> str:
        """The namespace of its tables, and the start of the names of its indices."""
        return f"{self.namespace}_{self.name}".replace("-", "_")

    def create_table(self, name: str, rows: pa.Table, **properties: str) -> Table:
        """Create a table with these rows."""
        table = self.catalog.create_table(
            f"{self.prefix}.{name}", rows.schema, properties=properties
        )
        table.append(rows)
        return table

    def make_entry(self, name: str, *key: str, **more: Any) -> Resource:
        """Return an element of `spec.tables`."""
        keys = {"identifierColumns": list(key)} if key else {}
        index = f"{self.prefix}-{name}"
        return {"name": f"{self.prefix}.{name}", "index": index, **keys, **more}

    def make_resource(self, tables: list[Resource], **spec: Any) -> Resource:
        """Return the whole pipeline; `spec` replaces fields of it."""
        catalog = self.cluster.facts["catalog"]
        properties = {key: value for key, value in catalog.items() if key not in _SECRET_KEYS}
        small = {"cores": 1, "memory": "512m"}
        return {
            "apiVersion": "icebergcdc.dev/v1alpha1",
            "kind": "IcebergCDCPipeline",
            "metadata": {"name": self.name},
            "spec": {
                "catalog": {
                    "properties": {
                        "type": "rest",
                        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
                        **properties,
                    },
                    "propertiesFrom": [{"secretRef": {"name": CREDENTIALS}}],
                },
                "tables": tables,
                "changelog": {"pollIntervalSeconds": 2},
                "sink": {"opensearch": {"hosts": [self.cluster.facts["search"]]}},
                "spark": {
                    "driver": small,
                    "executor": {**small, "instances": 1},
                    "localVolumes": [{"hostPath": {"path": str(self.scratch)}}],
                    "conf": SMALL,
                },
                **spec,
            },
        }

    def apply(self, resource: Resource) -> None:
        """Create or change the pipeline; with the Secret of its catalog."""
        self.give_credentials()
        self.cluster.apply(self.namespace, resource)

    def give_credentials(self) -> None:
        """Make the Secret of its catalog."""
        catalog = self.cluster.facts["catalog"]
        self.give_secret(CREDENTIALS, {key: catalog[key] for key in _SECRET_KEYS})

    def give_secret(self, name: str, content: Mapping[str, str]) -> None:
        """Make a Secret in its namespace."""
        metadata = {"name": name}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        self.cluster.apply(self.namespace, {**secret, "stringData": dict(content)})

    def patch(self, **spec: Any) -> None:
        """Change fields of the spec, as `kubectl patch` does."""
        merge = ("--type=merge", "-p", json.dumps({"spec": spec}))
        self.run_kubectl("patch", "icdc", self.name, *merge)

    def suspend(self) -> None:
        """Suspend the pipeline, if it is still there."""
        suspend = ("--type=merge", "-p", json.dumps({"spec": {"suspend": True}}))
        # It may be going this moment, so what kubectl says of it does not matter.
        self.cluster.kubectl.run("patch", "icdc", self.name, "-n", self.namespace, *suspend)

    def run_kubectl(self, *arguments: str) -> str:
        """Run kubectl in the namespace and return its output."""
        return self.cluster.kubectl.run_ok(*arguments, "-n", self.namespace)

    def read_pipeline(self) -> Resource:
        """Return the pipeline as the API server has it."""
        return self.read_object("get", "icdc", self.name)

    def is_deleted(self) -> bool:
        """Return whether the API server has no such pipeline."""
        command = (
            "get",
            "icdc",
            self.name,
            "-n",
            self.namespace,
            "--ignore-not-found",
            "-o",
            "name",
        )
        return not self.cluster.kubectl.run_ok(*command).strip()

    def read_object(self, *arguments: str) -> Resource:
        """Return the object or list that kubectl prints in the namespace."""
        return self.cluster.kubectl.read_object(*arguments, "-n", self.namespace)

    def read_status(self) -> Resource:
        """Return it as stored: before the operator's first look it says that, and nothing else."""
        status: Resource = self.read_pipeline().get("status", {})
        return status

    def wait_until(
        self, reached: Callable[[Resource], bool], what: str, seconds: float = RUN_SECONDS
    ) -> Resource:
        """Wait; return the first status that is so. AssertionError with the last one that was
        not."""
        deadline = time.monotonic() + seconds
        while not reached(status := self.read_status()):
            assert time.monotonic() < deadline, f"not within {seconds} s: {what}; {self.describe()}"
            time.sleep(_PAUSE)
        return status

    def describe(self) -> str:
        """Return the status, pods and events, for the message of an assertion."""
        pods = self.run_kubectl("get", "pods", "-o", "wide")
        events = self.run_kubectl("get", "events", "--sort-by=.metadata.creationTimestamp")
        status = json.dumps(self.read_status(), indent=1)
        return f"{status}\n{pods}\n{events[-4000:]}"

    def wait_until_applied(self, *tables: Table, seconds: float = RUN_SECONDS) -> None:
        """Return once these tables' current snapshots are in the index."""
        wanted = {
            ".".join(table.name()): str(table.refresh().metadata.current_snapshot_id)
            for table in tables
        }

        def is_applied(status: Resource) -> bool:
            tables = status.get("tables", [])
            applied_snapshots = {table["name"]: table.get("appliedSnapshotId") for table in tables}
            return wanted.items() <= applied_snapshots.items()

        self.wait_until(is_applied, f"{wanted}", seconds)

    def name_index(self, table: Table) -> str:
        """Return the name by which readers search the table."""
        return f"{self.prefix}-{table.name()[-1]}"

    def find_physical_index(self, table: Table) -> str:
        """Return the index behind that name; "" where there is none."""
        path = f"/_cat/aliases/{self.name_index(table)}?format=json&h=index"
        answer = node_calls.call(self.cluster.facts["search"], "GET", path)
        behind = [index["index"] for index in json.loads(answer.body)]
        assert len(behind) <= 1, behind
        return str(behind[0]) if behind else ""

    def read_documents(self, table: Table) -> Documents:
        """Return the documents that readers find: id -> (version, source)."""
        return node_calls.read_documents(self.cluster.facts["search"], self.name_index(table))

    def assert_equal(self, table: Table, *key: str) -> None:
        """Assert that the index holds exactly the rows of the table; nulls are left out."""
        documents = self.read_documents(table)
        rows = table.refresh().scan().to_arrow().to_pylist()
        sources = [
            {name: value for name, value in row.items() if value is not None} for row in rows
        ]
        if not key:
            listed = [source for _, source in documents.values()]
            assert sorted(map(json.dumps, listed)) == sorted(map(json.dumps, sources))
            return
        wanted = {"|".join(str(row[column]) for column in key): row for row in sources}
        shown = {id_: source for id_, (_, source) in documents.items()}
        differing = {id_ for id_ in shown.keys() | wanted if shown.get(id_) != wanted.get(id_)}
        assert not differing, f"{len(differing)} of {len(wanted)}: {sorted(differing)[:20]}"

    def list_pods(self, role: str, run: str) -> list[Resource]:
        """Return the pods of that run with that role of Spark, `driver` or `executor`."""
        selector = f"icebergcdc.dev/run={run},spark-role={role}"
        pods: list[Resource] = self.read_object("get", "pods", "-l", selector)["items"]
        return pods

    def wait_until_pod_runs(self, role: str, run: str) -> str:
        """Wait; return the name of the first pod of that run and role that runs."""
        running: list[str] = []

        def is_running(_: Resource) -> bool:
            pods = self.list_pods(role, run)
            running.extend(
                pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running"
            )
            return bool(running)

        self.wait_until(is_running, f"a {role} of {run} runs")
        return running[0]


def make_rows(first: int, last: int, **columns: Callable[[int], object]) -> pa.Table:
    """Return a table with the column `id` from first to last, and others made from it."""
    ids = range(first, last + 1)
    made: Mapping[str, list[object]] = {
        name: [make(number) for number in ids] for name, make in columns.items()
    }
    return pa.table({"id": pa.array(ids, pa.int64()), **made})
