"""Base of all API models: names on the wire, strictness, bounded text and time.

A model is a value: frozen, with snake_case attributes in Python and camelCase names in YAML and
JSON, and it refuses unknown fields. Must not know any single resource.
"""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
)
from pydantic.alias_generators import to_camel

# Bounds keep the CEL rules within their cost budget, and a resource within the 1.5 MiB of etcd
# together with `spec.limits` and, in the operator, `core.limits.status_size`.
# Characters; the longest name of an object in Kubernetes.
MAX_NAME = 253
# Characters of a message; an Event takes as many bytes.
MAX_TEXT = 1024
# Tables of one pipeline, all in one driver. A CEL rule that compares all with all would visit
# 250,000 pairs, and the API server refuses that.
MAX_TABLES = 500
INT64_MAX = 2**63 - 1
# Below the bit length of a double, so that every JSON reader shows the number as it is.
MAX_COUNT = 2**53 - 1


class ApiModel(BaseModel):
    """Base of every model: frozen, strict, camelCase on the wire; docstrings are descriptions."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        # By name for callers in Python; documents are validated with `by_name=False`, or a field
        # in snake_case would pass here and be dropped by the API server.
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )

    def to_resource(self) -> dict[str, Any]:
        """Return the value as plain JSON types with camelCase names, without fields of None."""
        return self.model_dump(mode="json", exclude_none=True)


def shorten(text: str, length: int) -> str:
    """Return `text` with at most `length` characters, the last of them an ellipsis if it is cut."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def format_count(number: int, noun: str) -> str:
    """Return `1 row` or `2 rows`: the number, and the noun in the form that goes with it."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def drop_name(table: str, message: str) -> str:
    """Return a message about `table` without the table's name, which stands before it already."""
    return message.removeprefix(f"Table {table}: ").removeprefix(f"{table}: ")


def _clip(limit: int) -> BeforeValidator:
    def clip(value: object) -> object:
        return shorten(value, limit) if isinstance(value, str) else value

    return BeforeValidator(clip)


def _format_rfc3339(moment: datetime) -> str:
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z").replace(".000Z", "Z")


def to_milliseconds(moment: datetime) -> datetime:
    """Return `moment` as it is after it was written and read: cut to milliseconds."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


# In YAML "1" in quotes is text and `yes` is a boolean; neither may become a number silently.
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=0, le=MAX_COUNT)]
ShortText = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME)]
# A message is cut rather than refused: a status must be writable whatever went wrong.
Message = Annotated[str, _clip(MAX_TEXT), StringConstraints(max_length=MAX_TEXT)]
Clipped = Annotated[str, _clip(MAX_NAME), StringConstraints(max_length=MAX_NAME)]
# Snapshot ids are strings in status: 64-bit numbers do not survive JSON readers that use doubles.
SnapshotId = Annotated[str, StringConstraints(pattern=r"^-?[0-9]{1,19}$", max_length=20)]
Timestamp = Annotated[
    AwareDatetime,
    # Cut while validating, so that writing and reading again gives an equal value.
    AfterValidator(to_milliseconds),
    Field(json_schema_extra={"maxLength": 40}),
    PlainSerializer(_format_rfc3339, return_type=str, when_used="json"),
]
