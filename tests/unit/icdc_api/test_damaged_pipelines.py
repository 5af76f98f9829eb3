"""Damages every place of the samples: the answer is a pipeline or a BadSpec, nothing else."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from icdc_api.crd.loading import load_resource, parse_pipeline
from icdc_api.errors import BadSpec

pytestmark = pytest.mark.unit

SAMPLES = Path(__file__).parents[3] / "crds" / "samples"
JUNK = [None, True, -1, 1.5, 10**30, "", "x y", "a" * 5000, [], [None], ["a", "a"], {}, {"a": 1}]
OPEN = {"template", "indexSettings", "mapping"}
Position = tuple[str | int, ...]


def _list_positions(value: Any, path: Position = ()) -> Iterator[tuple[Position, Any]]:
    yield path, value
    children = value.items() if isinstance(value, dict) else ()
    for key, child in enumerate(value) if isinstance(value, list) else children:
        yield from _list_positions(child, (*path, key))


def _damage(document: dict[str, Any], path: Position, junk: Any) -> dict[str, Any]:
    result = copy.deepcopy(document)
    position: Any = result
    for key in path[:-1]:
        position = position[key]
    position[path[-1]] = junk
    return result


@pytest.mark.parametrize("sample", ["full", "append-only"])
def test_damage_at_any_place_is_refused_in_lines_that_begin_with_the_file(sample: str) -> None:
    document = load_resource(SAMPLES / f"{sample}.yaml", {})
    positions = list(_list_positions(document))[1:]
    answers = [
        _find_refusal(_damage(document, path, junk)) for path, _ in positions for junk in JUNK
    ]
    refusals = [answer for answer in answers if answer is not None]
    assert len(refusals) > 300
    for refusal in refusals:
        assert all(line.startswith("p.yaml: ") for line in refusal.splitlines()), refusal
        assert len(refusal) < 1000, refusal


def _find_refusal(document: dict[str, Any]) -> str | None:
    try:
        parse_pipeline(document, source="p.yaml")
    except BadSpec as error:
        return error.message
    return None


def test_an_unknown_field_is_named_in_full_wherever_it_stands() -> None:
    document = load_resource(SAMPLES / "full.yaml", {})
    maps = {"properties", "conf", "labels", "annotations", "adds"}
    checked = 0
    for path, value in _list_positions(document):
        if not isinstance(value, dict) or OPEN.intersection(path) or maps.intersection(path[-1:]):
            continue
        with pytest.raises(BadSpec) as caught:
            parse_pipeline(_damage(document, (*path, "zzz"), 1), source="p.yaml")
        name = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
        expected = f"{name}.zzz".removeprefix(".")
        assert caught.value.message.startswith(f"p.yaml: {expected}: unknown field; "), path
        checked += 1
    assert checked > 25
