"""Stands for the HTTP connection of the OpenSearch client in front of the model of a target."""

from collections.abc import Collection, Mapping
from typing import Any

from opensearchpy.connection import Connection
from pydantic_core import to_json

from icdc_testing.simulation.model.target import Answer


class ModelConnection(Connection):
    """Returns answers of the model to the client as a real connection would."""

    def answer(
        self, method: str, url: str, params: Mapping[str, Any], body: Any, tag: str
    ) -> Answer:
        """Answer a request; `tag` is its x-opaque-id, empty where it has none."""
        raise NotImplementedError

    def perform_request(  # type: ignore[override]
        self,
        method: str,
        url: str,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        timeout: float | None = None,
        allow_redirects: bool | None = True,
        ignore: Collection[int] = (),
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Return status, headers and text of the answer; raise the client's error for a failure."""
        tag = (headers or {}).get("x-opaque-id", "")
        status, content = self.answer(method, url, params or {}, body, tag)
        text = to_json(content).decode()
        if not 200 <= status < 300 and status not in ignore:
            self._raise_error(status, text, "application/json")
        return status, {"content-type": "application/json"}, text

    def close(self) -> None:
        """Do nothing: nothing is open."""
