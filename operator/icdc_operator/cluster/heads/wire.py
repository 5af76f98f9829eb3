"""What the operator and the reader of a catalog say to each other: one JSON object a line."""

from typing import Any

from pydantic import BaseModel

from icdc_api import errors
from icdc_api.errors import Bug, IcdcError
from icdc_operator.cluster.heads.catalog_properties import CatalogKind, OutOfSight, PyCatalog

MAX_LINE_BYTES = 2**20
"""Of a question; answers are far shorter."""

MAX_TEXT = 1000
"""Characters of a reason."""

FAILURES: dict[str, type[IcdcError]] = {
    each.__name__: each
    for each in (
        errors.BranchNotFound,
        errors.SourceUnavailable,
        errors.TableNotFound,
        errors.Unauthorized,
        OutOfSight,
        Bug,
    )
}
"""What may be wrong, by the names that go over the wire."""


class Opening(BaseModel):
    """The first line: the catalog of all that follow. Holds credentials."""

    kind: CatalogKind
    name: str
    properties: dict[str, Any]
    api_server: tuple[str, ...] = ()
    """Addresses of the API server that the operator learned beyond those of its Service."""

    @property
    def catalog(self) -> PyCatalog:
        """As the reader wants it."""
        return PyCatalog(self.kind, self.name, self.properties)


class Question(BaseModel):
    """Asks for the newest snapshot of a table's branch."""

    table: tuple[str, ...]
    branch: str
    seconds: float
    """The reader ends after them, whatever it does."""


class HeadAnswer(BaseModel):
    """The snapshot (None: of an empty table), or why there is none."""

    head: int | None = None
    failure: str | None = None
    text: str = ""
    where: str = ""
    """Of an error that nobody foresaw: frames, without values."""


def line(message: BaseModel) -> bytes:
    """Return the message as it goes over the wire."""
    return message.model_dump_json().encode() + b"\n"
