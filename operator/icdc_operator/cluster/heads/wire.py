"""Messages between the operator and the reader of a catalog: one JSON object per line.

    operator -> reader    Opening     once: the catalog
    operator -> reader    Question    a table's branch
    reader -> operator    HeadAnswer  its newest snapshot, or a failure by name

Both sides parse them as foreign text: a child has read a stranger's answers.
"""

from typing import Any

from pydantic import BaseModel

from icdc_api import errors
from icdc_api.errors import Bug, IcdcError
from icdc_operator.cluster.heads.catalog_properties import CatalogKind, OutOfSight, PyCatalog

MAX_LINE_BYTES = 2**20
"""Longest line that a reader accepts; answers are far shorter."""

MAX_TEXT = 1000
"""Most characters of a reason that the operator takes over."""

FAILURES: dict[str, type[IcdcError]] = {
    error.__name__: error
    for error in (
        errors.BranchNotFound,
        errors.SourceUnavailable,
        errors.TableNotFound,
        errors.Unauthorized,
        OutOfSight,
        Bug,
    )
}
"""The failures that an answer may name. A name from a reader is looked up here and nowhere else."""


class Opening(BaseModel):
    """The first line of a connection: the catalog of all questions."""

    kind: CatalogKind
    """Which client of pyiceberg is made."""
    name: str
    """As in the spec; a JDBC catalog finds its rows by it."""
    properties: dict[str, Any]
    """May hold credentials."""
    authority: str | None = None
    """Certificates, as PEM, that are trusted beside the usual ones."""
    api_server: tuple[str, ...] = ()
    """Addresses of the API server that the operator learned beyond those of its Service."""

    @property
    def catalog(self) -> PyCatalog:
        """Return the catalog."""
        return PyCatalog(self.kind, self.name, self.properties, self.authority)


class Question(BaseModel):
    """Asks for the newest snapshot of a table's branch."""

    table: tuple[str, ...]
    """Parts of its name, the namespace first."""
    branch: str
    """Its name in Iceberg, such as `main`."""
    seconds: float
    """Time for the answer; the kernel ends a reader that takes longer."""


class HeadAnswer(BaseModel):
    """The newest snapshot of a branch, or a failure."""

    head: int | None = None
    """Id of the snapshot; None for an empty table."""
    failure: str | None = None
    """A name of `FAILURES`; None if the head was read."""
    text: str = ""
    """Message of the failure, for a person."""
    where: str = ""
    """Stack frames of an unforeseen error, without values."""


def encode_line(message: BaseModel) -> bytes:
    """Return the message as it goes over the wire."""
    # The line feed is the only one: JSON escapes those within texts.
    return message.model_dump_json().encode() + b"\n"
