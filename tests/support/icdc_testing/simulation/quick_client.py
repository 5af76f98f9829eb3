"""The OpenSearch client's library, quicker: the same results with less work.

None of it is the product. Worlds make a client for each task, and thousands of requests by the same
few paths.
"""

import logging
import sys
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any

from opensearchpy.exceptions import NotFoundError
from pydantic_core import from_json, to_json


def install() -> None:
    """Make the library quick, after all of its modules that the product uses are imported."""
    from opensearchpy.serializer import JSONSerializer
    from opensearchpy.transport import Transport

    from icdc_spark.opensearch.client.connection import Client

    set_attribute(Client, "__init__", _share_parts(Client.__init__))
    set_attribute(Transport, "perform_request", _perform_request)
    set_attribute(JSONSerializer, "dumps", _write_json)
    _replace_paths()
    # Each client sets the level of its logger, which makes all loggers forget theirs.
    set_attribute(logging.Manager, "_clear_cache", lambda self: None)


def set_attribute(kind: type, name: str, value: Any) -> None:
    """Set an attribute of a class."""
    setattr(kind, name, value)


def _share_parts(begin: Callable[..., None]) -> Callable[..., None]:
    made: dict[str, dict[str, Any]] = {}

    def begin_like_the_first(self: Any, **how: Any) -> None:
        # Its parts hold nothing of a world: the connection asks which one is played.
        key = repr(how)
        if key not in made:
            begin(self, **how)
            made[key] = dict(vars(self))
        vars(self).update(made[key])

    return begin_like_the_first


def _perform_request(
    self: Any,
    method: str,
    url: str,
    params: Any = None,
    body: Any = None,
    timeout: Any = None,
    ignore: Collection[int] = (),
    headers: Any = None,
) -> Any:
    """Stand for that of a `Transport` with one host that tries once, and answers in JSON."""
    method, params, body, ignore, _ = self._resolve_request_args(
        method, params, body, ignore, timeout
    )
    try:
        status, _, text = self.connection_pool.connection.perform_request(
            method, url, params, body, headers=headers, ignore=ignore
        )
    except NotFoundError:
        if method == "HEAD":
            return False
        raise
    return 200 <= status < 300 if method == "HEAD" else from_json(text)


def _write_json(self: Any, data: Any) -> str | bytes:
    return data if isinstance(data, str | bytes) else to_json(data, fallback=self.default)


def _replace_paths() -> None:
    from opensearchpy.client.utils import _make_path

    remembered = lru_cache(maxsize=10_000)(_make_path)

    def make_path(*parts: Any) -> str:
        try:
            return remembered(*parts)
        except TypeError:  # a list of indices
            return _make_path(*parts)

    for name, module in list(sys.modules.items()):
        if name.startswith("opensearchpy.") and "_make_path" in vars(module):
            vars(module)["_make_path"] = make_path
