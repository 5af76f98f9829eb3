"""Reads the answer to a bulk request as cheaply as its content allows.

A clean answer is only scanned for its status numbers; JSON objects are made when an item failed.
It must not decide anything: `item_outcome` does.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from icdc_api.errors import Gap
from icdc_spark.opensearch.wire.item_outcome import DROPPED, ItemAnswer

_STATUS = re.compile(r'"status":(\d+)')
_ERROR = '"error":'
# The second one where documents are routed: the guard has no routing.
_OF_AN_ALIAS = ("document_missing_exception", "routing_missing_exception")
"""Errors of a guard that was not refused for naming a physical index."""
_NOOP = '"noop"'
"""The result of a document that an ingest pipeline dropped: a success that wrote nothing."""


class UnreadableAnswerError(Exception):
    """An answer with status 200 that is not the one to our request."""


@dataclass(frozen=True)
class ItemAnswers:
    """The answers to all operations of a request."""

    statuses: npt.NDArray[np.int16]
    """The status of every operation."""
    failed: dict[int, ItemAnswer] = field(default_factory=dict)
    """The whole answer of each that was not applied, by its position."""


def read(text: str, operations: int) -> ItemAnswers:
    """Return the answers to so many operations; that of the guard is checked and left out.

    Raises Gap if the guard shows that the index's name is an alias now, UnreadableAnswerError if
    `text` is no answer to a bulk request of this size.
    """
    # Quotes inside a reason are escaped, so neither pattern can match within a text.
    statuses = np.fromiter(map(int, _STATUS.findall(text)), dtype=np.int16)
    # The guard always fails, so one error is that of a clean answer.
    clean = text.count(_ERROR) == 1 and _NOOP not in text
    if clean and len(statuses) == operations + 1:
        _check_guard(int(statuses[0]), text[: text.index("}}")])
        return ItemAnswers(statuses[1:])
    return _read_objects(text, operations)


def _read_objects(text: str, operations: int) -> ItemAnswers:
    try:
        items = [next(iter(item.values())) for item in json.loads(text)["items"]]
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        raise UnreadableAnswerError("not the answer to a bulk request") from error
    if len(items) != operations + 1:
        raise UnreadableAnswerError(f"{len(items)} items for {operations + 1} operations")
    # The entry in front of ours, see `http.GUARD`.
    guard = items.pop(0)
    _check_guard(guard["status"], json.dumps(guard))
    statuses = np.fromiter((item["status"] for item in items), dtype=np.int16, count=operations)
    failed = {
        position: _parse_item(item)
        for position, item in enumerate(items)
        if "error" in item or _is_dropped(item)
    }
    return ItemAnswers(statuses, failed)


def _is_dropped(item: dict[str, Any]) -> bool:
    return item.get("result") == "noop"


def _parse_item(item: dict[str, Any]) -> ItemAnswer:
    if _is_dropped(item):
        return ItemAnswer(item["status"], DROPPED)
    error = item["error"]
    if not isinstance(error, dict):
        # A proxy between may put a text in place of the object.
        return ItemAnswer(item["status"], "unknown", str(error))
    return ItemAnswer(
        item["status"], str(error.get("type", "unknown")), str(error.get("reason", ""))
    )


def _check_guard(status: int, text: str) -> None:
    # The guard fails for a physical index before anybody asks who may write: 403 means an alias.
    if status < 300 or status == 403 or any(kind in text for kind in _OF_AN_ALIAS):
        raise Gap("The name of the index is an alias now: somebody replaced the index.")
