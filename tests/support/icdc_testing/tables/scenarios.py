"""Stories: what happens to a table step by step, and all that must be written into its index.

After each run a story keeps what was written, what the index holds then, and what the independent
oracle says that it must hold. `icdc_testing.tables.playing` takes many stories through the same
runs.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.error import HTTPError

from pyspark.sql import SparkSession

from icdc_api.status import TableStatus
from icdc_testing.lake.lake import CATALOG, COPY_ON_WRITE, MERGE_ON_READ
from icdc_testing.lake.schemas import create_from_json
from icdc_testing.network.recorded_writes import Write
from icdc_testing.target import oracle

Document = oracle.Document
Op = tuple[str, str, Document | None]
Act = str | Callable[["Stage"], object]

GUARD = "icdc-guard"


@dataclass(frozen=True)
class Format:
    """How a table is written."""

    mode: str
    version: int

    def __str__(self) -> str:
        return f"{'cow' if self.mode == COPY_ON_WRITE else 'mor'}{self.version}"


COW2, MOR2, MOR3 = Format(COPY_ON_WRITE, 2), Format(MERGE_ON_READ, 2), Format(MERGE_ON_READ, 3)
EVERY_FORMAT = (COW2, MOR2, MOR3)


def put(key: str, /, **document: Any) -> Op:
    """The document is written."""
    return ("index", key, document)


def gone(key: str) -> Op:
    """The document is deleted."""
    return ("delete", key, None)


def rows(values: str) -> str:
    """The rows of a VALUES list, in one file."""
    return f"select /*+ coalesce(1) */ * from (values {values})"


@dataclass(frozen=True, kw_only=True)
class Step:
    """What happens to a table before a run, and everything that the run must write.

    `into` is the number of the physical index. `entry` changes the table's entry in the spec from
    here on. `documents` replaces the oracle, which needs unique keys. `reason` is that of a table
    that must stall: then nothing changes. `check` looks at the world right after the run.
    """

    do: Sequence[Act] = ()
    writes: Sequence[Op] = ()
    into: int = 1
    entry: Mapping[str, Any] = field(default_factory=dict)
    absent: bool = False
    documents: Mapping[str, Document] | None = None
    reason: str | None = None
    message: str | None = None
    check: Callable[["Stage"], object] | None = None


@dataclass(frozen=True, kw_only=True)
class Story:
    """One table. `{t}` in a statement is its name, `{n}` the name below the catalog."""

    name: str
    steps: Sequence[Step]
    columns: str = "id int, name string, age int"
    key: Sequence[str] = ("id",)
    where: str | None = None
    projection: Sequence[str] | None = None
    partitioned: str = ""
    format: Format = COW2
    entry: Mapping[str, Any] = field(default_factory=dict)
    catalog: str = CATALOG
    create: bool = True
    append_only: bool = False

    @property
    def alias(self) -> str:
        return f"{self.name}-{self.format}".replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one run did for one story.

    `into` are the physical indices that were written, `sources` the bytes of the documents by id.
    """

    writes: list[Op]
    into: set[str]
    sources: dict[str, bytes]
    status: TableStatus | None
    found: dict[str, Document]
    wanted: dict[str, Document] | None
    problem: BaseException | None


class Stage:
    """Where a story's statements and checks act."""

    def __init__(self, spark: SparkSession, url: str, namespace: str, story: Story) -> None:
        self.spark, self.url, self.story = spark, url, story
        self.namespace = namespace
        self.entry: dict[str, Any] = {}
        self.outcomes: list[Outcome] = []
        self.writes: list[Write] = []
        self.noted = 0
        self.names: dict[str, str] = {}

    @property
    def name(self) -> str:
        return f"{self.namespace}.{self.story.name}_{self.story.format}"

    @property
    def table(self) -> str:
        return f"{self.story.catalog}.{self.name}"

    def sql(self, statement: str) -> list[Any]:
        text = self.told(statement).replace("{c}", self.story.catalog)
        return self.spark.sql(text).collect()

    def told(self, text: str) -> str:
        """A text with the names of this story."""
        noted = str(self.noted)
        names = {"t": self.table, "n": self.name, "noted": noted, **self.names}
        for name, told in names.items():
            text = text.replace(f"{{{name}}}", told)
        return text

    def snapshots(self) -> list[int]:
        """Ids of the retained snapshots, oldest first."""
        rows = self.sql("select snapshot_id from {t}.snapshots order by committed_at")
        return [row[0] for row in rows]

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """One request to the node, behind the proxy's back."""
        return oracle.request(f"{self.url}/{path}", method, body)

    def indices(self) -> list[str]:
        """The physical indices that the alias points to."""
        return sorted(self.call("GET", f"_alias/{self.story.alias}"))

    def mapping(self) -> dict[str, Any]:
        """The properties of the index behind the alias."""
        (found,) = self.call("GET", f"{self.story.alias}/_mapping").values()
        properties: dict[str, Any] = found["mappings"]["properties"]
        return properties

    def create(self) -> None:
        story = self.story
        if story.columns.startswith("{"):
            properties = {"format-version": str(story.format.version)}
            create_from_json(self.spark, self.table, story.columns, properties)
            return
        clause = f"partitioned by ({story.partitioned})" if story.partitioned else ""
        modes = ", ".join(
            f"'write.{verb}.mode'='{story.format.mode}'" for verb in ("update", "delete", "merge")
        )
        self.sql(
            f"create table {{t}} ({story.columns}) using iceberg {clause} tblproperties("
            f"'format-version'='{story.format.version}', {modes}, "
            "'write.distribution-mode'='none')"
        )

    def act(self, step: Step) -> None:
        for each in step.do:
            if isinstance(each, str):
                self.sql(each)
            else:
                each(self)

    def found(self) -> dict[str, Document]:
        """What readers see; nothing where there is no such index."""
        try:
            return oracle.indexed(self.url, self.story.alias)
        except HTTPError as error:
            if error.code != 404:
                raise
            return {}

    def wanted(self, step: Step) -> dict[str, Document] | None:
        story = self.story
        if step.documents is not None:
            return dict(step.documents)
        if step.reason is not None or step.absent or story.append_only:
            return None
        branch = f".branch_{self.entry['branch']}" if "branch" in self.entry else ""
        return oracle.expected(
            self.spark,
            self.table + branch,
            story.key,
            columns=story.projection,
            where=story.where,
        )

    def settle(self, step: Step, status: TableStatus | None) -> None:
        """Keeps what there is right after a run."""
        problem: BaseException | None = None
        try:
            if step.check is not None:
                step.check(self)
        except AssertionError as error:
            problem = error
        mine = document_writes(self.writes, self.story.alias)
        self.outcomes.append(
            Outcome(
                writes=operations(mine),
                into={write.index for write in mine},
                sources={write.id: write.source for write in mine},
                status=status,
                found=self.found(),
                wanted=self.wanted(step),
                problem=problem,
            )
        )


def document_writes(writes: Iterable[Write], alias: str) -> list[Write]:
    """The writes of documents into the physical indices of an alias, without the sink's guard."""
    physical = re.compile(re.escape(alias) + r"-\d{6}")
    return [w for w in writes if physical.fullmatch(w.index) and w.id != GUARD]


def operations(writes: Iterable[Write]) -> list[Op]:
    """What the writes do, whatever their versions, in the order of their ids."""
    done = [(w.op, w.id, json.loads(w.source) if w.source else None) for w in writes]
    return sorted(done, key=lambda op: (op[1], op[0]))
