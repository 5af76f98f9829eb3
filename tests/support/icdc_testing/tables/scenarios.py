"""Describe what happens to a table step by step, and all that must be written into its index.

After each run a scenario stores what was written, what the index holds then, and what the
independent oracle says that it must hold. `icdc_testing.tables.playing` takes many scenarios
through the same runs.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.error import HTTPError

from pyspark.sql import SparkSession

from icdc_api.status.pipeline_status import TableStatus
from icdc_testing.lake.lake import CATALOG, COPY_ON_WRITE, MERGE_ON_READ
from icdc_testing.lake.schemas import create_from_json
from icdc_testing.network.recorded_writes import Write
from icdc_testing.target import oracle

Document = oracle.Document
Op = tuple[str, str, Document | None]
Act = str | Callable[["ScenarioTable"], object]

GUARD = "icdc-guard"


@dataclass(frozen=True)
class Format:
    """The way in which a table is written."""

    mode: str
    """Copy-on-write or merge-on-read."""
    version: int
    """The format version."""

    def __str__(self) -> str:
        return f"{'cow' if self.mode == COPY_ON_WRITE else 'mor'}{self.version}"


COW2, MOR2, MOR3 = Format(COPY_ON_WRITE, 2), Format(MERGE_ON_READ, 2), Format(MERGE_ON_READ, 3)
EVERY_FORMAT = (COW2, MOR2, MOR3)


def put(key: str, /, **document: Any) -> Op:
    """Return the operation that writes a document."""
    return ("index", key, document)


def remove(key: str) -> Op:
    """Return the operation that deletes a document."""
    return ("delete", key, None)


def select_rows(values: str) -> str:
    """Return a query for the rows of a VALUES list, in one file."""
    return f"select /*+ coalesce(1) */ * from (values {values})"


@dataclass(frozen=True, kw_only=True)
class ScenarioStep:
    """What happens to a table before a run, and everything that the run must write."""

    do: Sequence[Act] = ()
    """SQL statements and functions, before the run."""
    writes: Sequence[Op] = ()
    """All operations of the run, in any order."""
    into: int = 1
    """The number of the physical index that they are written into."""
    entry: Mapping[str, Any] = field(default_factory=dict)
    """Changes of the table's entry in the spec, from here on; None removes a field."""
    absent: bool = False
    """True if the spec does not list the table in this run."""
    documents: Mapping[str, Document] | None = None
    """What the index holds afterwards, in place of the oracle, which needs unique keys."""
    reason: str | None = None
    """The reason for which the table must stall: then nothing changes."""
    message: str | None = None
    """The message of the table's status; None if there is none."""
    message_part: str = ""
    """A part of that message, in place of the whole."""
    check: Callable[["ScenarioTable"], object] | None = None
    """Asserts more right after the run."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One table and its steps. `{t}` in a statement is its name, `{n}` that below the catalog."""

    name: str
    """Names the table and its alias, together with the format."""
    steps: Sequence[ScenarioStep]
    """One for each run."""
    columns: str = "id int, name string, age int"
    """Columns in SQL, or an Iceberg schema in JSON."""
    key: Sequence[str] = ("id",)
    """The identifier columns."""
    where: str | None = None
    """The row filter that the oracle applies."""
    projection: Sequence[str] | None = None
    """The columns that the oracle reads; None for all."""
    partitioned: str = ""
    """Partition fields in SQL."""
    format: Format = COW2
    """Mode and format version of the table."""
    entry: Mapping[str, Any] = field(default_factory=dict)
    """More fields of the table's entry in the spec."""
    catalog: str = CATALOG
    """The catalog that has the table."""
    create: bool = True
    """False if a step creates the table."""
    append_only: bool = False
    """True if the table is declared `appendOnly`."""

    @property
    def alias(self) -> str:
        """The alias of the index."""
        return f"{self.name}-{self.format}".replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one run did for one scenario."""

    writes: list[Op]
    """The operations, sorted by id."""
    into: set[str]
    """The physical indices that were written."""
    sources: dict[str, bytes]
    """The documents byte by byte, by id."""
    status: TableStatus | None
    """The table's status; None if the run did not know the table."""
    indexed: dict[str, Document]
    """What readers of the alias see afterwards."""
    expected: dict[str, Document] | None
    """What the oracle says that they must see; None if that nothing changed."""
    problem: BaseException | None
    """The failed assertion of the step's `check`."""


class ScenarioTable:
    """The table and the index on which a scenario's statements and checks act."""

    def __init__(self, spark: SparkSession, url: str, namespace: str, scenario: Scenario) -> None:
        self.spark, self.url, self.scenario = spark, url, scenario
        self.namespace = namespace
        self.entry: dict[str, Any] = {}
        self.outcomes: list[Outcome] = []
        self.writes: list[Write] = []
        self.noted = 0
        self.names: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The table's name below the catalog."""
        return f"{self.namespace}.{self.scenario.name}_{self.scenario.format}"

    @property
    def table(self) -> str:
        """The table's full name."""
        return f"{self.scenario.catalog}.{self.name}"

    def sql(self, statement: str) -> list[Any]:
        """Run a statement with the names of this scenario, and return its rows."""
        text = self.fill_names(statement).replace("{c}", self.scenario.catalog)
        return self.spark.sql(text).collect()

    def fill_names(self, text: str) -> str:
        """Return a text with the names of this scenario."""
        noted = str(self.noted)
        names = {"t": self.table, "n": self.name, "noted": noted, **self.names}
        for name, value in names.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def list_snapshots(self) -> list[int]:
        """Return ids of the retained snapshots, oldest first."""
        rows = self.sql("select snapshot_id from {t}.snapshots order by committed_at")
        return [row[0] for row in rows]

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Send one request to the node, past the proxy, which does not record it."""
        return oracle.request(f"{self.url}/{path}", method, body)

    def list_indices(self) -> list[str]:
        """Return the physical indices that the alias points to."""
        return sorted(self.call("GET", f"_alias/{self.scenario.alias}"))

    def read_mapping(self) -> dict[str, Any]:
        """Return the properties of the index behind the alias."""
        (index,) = self.call("GET", f"{self.scenario.alias}/_mapping").values()
        properties: dict[str, Any] = index["mappings"]["properties"]
        return properties

    def create(self) -> None:
        """Create the table."""
        scenario = self.scenario
        if scenario.columns.startswith("{"):
            properties = {"format-version": str(scenario.format.version)}
            create_from_json(self.spark, self.table, scenario.columns, properties)
            return
        clause = f"partitioned by ({scenario.partitioned})" if scenario.partitioned else ""
        modes = ", ".join(
            f"'write.{verb}.mode'='{scenario.format.mode}'"
            for verb in ("update", "delete", "merge")
        )
        self.sql(
            f"create table {{t}} ({scenario.columns}) using iceberg {clause} tblproperties("
            f"'format-version'='{scenario.format.version}', {modes}, "
            "'write.distribution-mode'='none')"
        )

    def act(self, step: ScenarioStep) -> None:
        """Do what happens before the run."""
        for act in step.do:
            if isinstance(act, str):
                self.sql(act)
            else:
                act(self)

    def read_index(self) -> dict[str, Document]:
        """Return what readers see; nothing where there is no such index."""
        try:
            return oracle.read_index(self.url, self.scenario.alias)
        except HTTPError as error:
            if error.code != 404:
                raise
            return {}

    def compute_expected(self, step: ScenarioStep) -> dict[str, Document] | None:
        """Return what the oracle says that readers must see; None if that nothing changed."""
        scenario = self.scenario
        if step.documents is not None:
            return dict(step.documents)
        if step.reason is not None or step.absent or scenario.append_only:
            return None
        branch = f".branch_{self.entry['branch']}" if "branch" in self.entry else ""
        return oracle.read_expected(
            self.spark,
            self.table + branch,
            scenario.key,
            columns=scenario.projection,
            where=scenario.where,
        )

    def settle(self, step: ScenarioStep, status: TableStatus | None) -> None:
        """Record the outcome, right after a run."""
        # Raised at the end, by `assert_played`: a failed check must not end the other scenarios.
        problem: BaseException | None = None
        try:
            if step.check is not None:
                step.check(self)
        except AssertionError as error:
            problem = error
        mine = select_writes(self.writes, self.scenario.alias)
        self.outcomes.append(
            Outcome(
                writes=list_operations(mine),
                into={write.index for write in mine},
                sources={write.id: write.source for write in mine},
                status=status,
                indexed=self.read_index(),
                expected=self.compute_expected(step),
                problem=problem,
            )
        )


def select_writes(writes: Iterable[Write], alias: str) -> list[Write]:
    """Return the writes of documents into physical indices of an alias, without the guard."""
    physical = re.compile(re.escape(alias) + r"-\d{6}")
    return [w for w in writes if physical.fullmatch(w.index) and w.id != GUARD]


def list_operations(writes: Iterable[Write]) -> list[Op]:
    """Return the operations of writes, without their versions, in the order of their ids."""
    done = [(w.op, w.id, json.loads(w.source) if w.source else None) for w in writes]
    return sorted(done, key=lambda op: (op[1], op[0]))
