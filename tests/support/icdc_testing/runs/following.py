"""Follow one table from commit to commit, as a pipeline would, without an index."""

import json
from typing import Any

from icdc_testing.lake.lake import Lake, apply_batch
from icdc_testing.target import oracle

Written = list[tuple[str, str]]


class Follower:
    """The documents of a table as of the last batch; `wishes` are those of the document spec."""

    def __init__(self, lake: Lake, name: str, **wishes: Any) -> None:
        self._lake, self._name, self._wishes = lake, name, wishes
        self._since: int | None = None
        self.documents: dict[str, str] = {}

    def apply_newest(self) -> Written:
        """Apply the newest commits; return their writes: `c`, `u` or `d`, and the id.

        Fails unless they, and an export, lead to what a plain read of the table by Spark shows.
        """
        until = self._lake.read_head(self._name)
        wanted = oracle.read_expected(
            self._lake.session,
            f"{self._lake.catalog}.{self._name}",
            self._wishes.get("identifier_columns", ("id",)),
            columns=self._wishes.get("columns"),
            where=self._wishes.get("row_filter"),
        )
        batch = self._lake.diff(self._name, self._since, **self._wishes)
        self.documents, self._since = apply_batch(self.documents, batch), until
        _assert_same(self.documents, wanted, f"the batch of {self._name}")
        exported = [op for part in self._lake.export(self._name, **self._wishes) for op in part.ops]
        _assert_same(
            {op.id: op.doc or "" for op in exported}, wanted, f"the export of {self._name}"
        )
        return batch.short


def _assert_same(documents: dict[str, str], wanted: dict[str, Any], how: str) -> None:
    read = {key: json.loads(text) for key, text in documents.items()}
    try:
        oracle.assert_equal(read, wanted)
    except AssertionError as error:
        raise AssertionError(f"{how}: {error}") from error
