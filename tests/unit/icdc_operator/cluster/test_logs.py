"""Log lines: JSON objects that say what they are about."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from icdc_operator.cluster import logs

pytestmark = pytest.mark.unit

LOG = logging.getLogger("icdc_operator.test")


@pytest.fixture
def retained_logging() -> Iterator[None]:
    """Puts the root logger back as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def stream(retained_logging: None) -> io.StringIO:
    return io.StringIO()


def parse_lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_json_object_with_what_it_is_about(stream: io.StringIO) -> None:
    logs.set_up("json", "info", stream)
    with logs.label_lines(pipeline="default/shop"):
        with logs.label_lines(run="shop-e1-1"):
            LOG.warning("two\nlines of %s", "text", extra={"table": "shop.orders"})
        LOG.info("after")
    LOG.info("outside")
    first, second, third = parse_lines(stream)
    assert first["message"] == "two\nlines of text"
    assert first["level"] == "warning"
    assert first["time"].endswith("Z")
    about = {name: first[name] for name in ("pipeline", "run", "table")}
    assert about == {"pipeline": "default/shop", "run": "shop-e1-1", "table": "shop.orders"}
    assert second["pipeline"] == "default/shop"
    assert "run" not in second
    assert "pipeline" not in third


def test_an_exception_is_part_of_its_line(stream: io.StringIO) -> None:
    logs.set_up("json", "info", stream)
    try:
        raise ZeroDivisionError("a bug")
    except ZeroDivisionError:
        LOG.exception("it failed")
    (line,) = parse_lines(stream)
    assert "ZeroDivisionError: a bug" in line["exception"]


def test_text_is_for_people(stream: io.StringIO) -> None:
    logs.set_up("text", "info", stream)
    with logs.label_lines(pipeline="default/shop"):
        LOG.info("hello")
    assert stream.getvalue().rstrip().endswith("info    hello pipeline=default/shop")


def test_the_level_counts(stream: io.StringIO) -> None:
    logs.set_up("json", "warning", stream)
    LOG.info("too little")
    LOG.error("enough")
    assert [line["message"] for line in parse_lines(stream)] == ["enough"]
