"""Nothing on a page is markup but what we wrote, whatever a tenant calls things."""

import copy
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from pydantic import ValidationError

from icdc_api.status.pipeline_status import parse_status
from icdc_cli.commands.ui import overview, pipeline_page
from icdc_cli.commands.ui.cells import Frame
from icdc_cli.commands.ui.elements import make, render
from icdc_cli.commands.ui.history import BatchMemory
from icdc_cli.commands.ui.readers import PageReading, ReadRefusal, parse_resource
from icdc_testing.operator.deciding import worst_cases
from icdc_testing.operator.deciding.pipelines import NOW

pytestmark = pytest.mark.unit

FRAME = Frame("/token/", NOW)
HOSTILE = (
    "</td></style><script>alert(1)</script><img src=x onerror='alert(2)'>\"> &amp; \x1b[2J\ud800"
)
SHOWN = HOSTILE.replace("\x1b", "\N{REPLACEMENT CHARACTER}").replace("\ud800", "?")
PLAIN = "two words"


class ParsedPage(HTMLParser):
    """The elements of a page with the names of their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tree: list[tuple[str, ...]] = []
        self.texts: list[str] = []
        self.values: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tree.append((tag, *(name for name, _ in attrs)))
        self.values += [value or "" for _, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        self.tree.append((f"/{tag}",))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)


def list_strings(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of each string below `value`."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from list_strings(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from list_strings(item, (*path, number))


def put(document: Any, path: tuple[str | int, ...], text: str) -> None:
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] = text


def build_status() -> dict[str, Any]:
    """Return a status with every field, in which much is wrong."""
    tables = [
        worst_cases.make_full_table("shop.a", "a"),
        worst_cases.make_full_table("shop.b", "b"),
    ]
    status = worst_cases.make_full_status(tables).to_resource()
    status["lastRun"]["state"] = "Failed"
    for condition in status["conditions"]:
        condition["status"] = "True" if condition["type"] in ("Stalled", "DeadLetters") else "False"
    return status


def list_free_strings(status: dict[str, Any]) -> list[tuple[str | int, ...]]:
    """Return the paths of strings that may be anything."""
    free = []
    for path in list_strings(status):
        changed = copy.deepcopy(status)
        # Without the surrogate, which no model accepts; a name of the metadata may have it.
        put(changed, path, HOSTILE.removesuffix("\ud800"))
        try:
            parse_status(changed)
        except ValidationError:
            continue
        free.append(path)
    return free


def fill_resource(paths: list[tuple[str | int, ...]], text: str) -> dict[str, Any]:
    status = build_status()
    for path in paths:
        put(status, path, text.removesuffix("\ud800"))
    metadata = {"namespace": text, "name": text}
    return {"metadata": metadata, "spec": {"tables": text}, "status": status}


def build_pages(text: str, paths: list[tuple[str | int, ...]]) -> list[ParsedPage]:
    pipeline = parse_resource(fill_resource(paths, text))
    assert not pipeline.problem
    unread = parse_resource({"metadata": {"name": text}, "status": {"phase": text}})
    reading = PageReading(text, NOW, (pipeline, unread), (ReadRefusal(text, text, text),))
    memory = BatchMemory()
    memory.add(reading)
    seen = memory.find(pipeline.namespace, pipeline.name)
    pages = (
        overview.build_overview(FRAME, reading),
        pipeline_page.build_pipeline_page(FRAME, reading, pipeline, seen),
        pipeline_page.build_pipeline_page(FRAME, reading, unread, ()),
    )
    return [ParsedPage(render(page)) for page in pages]


def test_no_string_of_a_resource_becomes_markup() -> None:
    paths = list_free_strings(build_status())
    # Names, indices, messages, ids of runs, samples of ids: what tenants choose.
    assert len(paths) > 40, paths
    for hostile, plain in zip(build_pages(HOSTILE, paths), build_pages(PLAIN, paths), strict=True):
        assert hostile.tree == plain.tree
        # Ours, which no string of a resource is a part of.
        assert [tag for tag, *_ in hostile.tree].count("script") == 1
        assert HOSTILE.partition("\x1b")[0] in hostile.text
        assert not {name for _, *names in hostile.tree for name in names if name.startswith("on")}


def test_a_name_in_an_address_is_one_part_of_its_path() -> None:
    assert (
        FRAME.link("pipelines", "a/b?c", "../#\ud800") == "/token/pipelines/a%2Fb%3Fc/..%2F%23%3F"
    )


def test_text_is_escaped_and_made_printable_in_content_and_attributes() -> None:
    page = ParsedPage(render(make("p", HOSTILE, title=HOSTILE, class_=None)))
    assert page.tree == [("p", "title"), ("/p",)]
    assert page.text == SHOWN
    assert page.values == [SHOWN]
