"""Answer reads from an old view, as a second API server with a lagging cache would.

The operator's reads name no resourceVersion, so a server must read etcd and not its cache
(Kubernetes API concepts, "Resource versions"). Here one breaks that rule.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from icdc_testing.operator.adapter.fakes.api import FakeAnswer, refuse

Resource = dict[str, Any]

STALE_SECONDS = 6.0
"""For how long it lags behind: longer than an operator needs to start anew and look twice."""


@dataclass
class StaleView:
    """What there was of one pipeline: its objects by the plurals of their kinds."""

    until: float
    """By the clock of the loop; from then on reads are answered by the server itself."""
    objects: Mapping[str, list[Resource]]
    answered: int = 0
    """Reads that it answered."""

    def answer(self, method: str, url: str, seconds: float) -> FakeAnswer | None:
        """Return the answer to a read, as it was; None for all that the server itself answers."""
        if method != "GET" or seconds >= self.until:
            return None
        parts = urlsplit(url)
        assert not {"resourceVersion", "resourceVersionMatch"} & set(parse_qs(parts.query)), url
        old_view = self._read_old(parts.path)
        self.answered += old_view is not None
        return old_view

    def _read_old(self, path: str) -> FakeAnswer | None:
        *_, plural, name = path.split("/")
        if name in self.objects:
            return FakeAnswer(200, {"metadata": {}, "items": self.objects[name]})
        for item in self.objects.get(plural, ()):
            if item["metadata"]["name"] == name:
                return FakeAnswer(200, item)
        return refuse(404, "not yet, or gone before") if plural in self.objects else None
