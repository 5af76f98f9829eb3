"""Every field of the CRD, tried with a good value and with bad ones made from its schema."""

import re
from typing import Any

import pytest

from icdc_api.crd.loading import parse_pipeline
from icdc_api.errors import BadSpec
from icdc_api.problems import format_value
from icdc_testing.kube.stored_pipelines import make_minimal
from icdc_testing.operator.deciding.spec_fields import (
    VALUES,
    SpecField,
    change_fields,
    list_fields,
    make_base,
    put,
)

pytestmark = pytest.mark.unit


def parse(spec: dict[str, Any]) -> Any:
    return parse_pipeline({**make_minimal(), "spec": spec}, source="pipeline").spec


@pytest.mark.parametrize("field", list_fields(), ids=str)
def test_every_field_has_a_good_value_that_makes_another_spec(field: SpecField) -> None:
    spec = make_base(field)
    assert parse(change_fields(spec, field)) != parse(spec)


@pytest.mark.parametrize("field", list_fields(), ids=str)
def test_a_wrong_value_is_refused_with_its_field_its_value_and_what_is_allowed(
    field: SpecField,
) -> None:
    wrong = list(field.list_wrong())
    assert wrong
    for value in wrong:
        spec = make_base(field)
        put(spec, field.path, value)
        with pytest.raises(BadSpec) as caught:
            parse(spec)
        line = caught.value.message.splitlines()[0]
        where, _, why = line.removeprefix("pipeline: ").partition(": ")
        assert re.fullmatch(field.error_pattern, where), line
        assert why.startswith(show_value(value)), line
        assert re.search(r"is not allowed: (it must .|allowed: .)|it (is|must) .", why), line


def show_value(value: Any) -> str:
    """Return how an error begins to tell the value; a list by its length, or its first item."""
    text = format_value(value).removesuffix("\u2026")
    return "" if isinstance(value, list) else text


@pytest.mark.parametrize("field", list_fields(), ids=str)
def test_an_unknown_field_beside_a_known_one_is_refused(field: SpecField) -> None:
    unknown = field.path + "Else"
    spec = make_base(field)
    put(spec, unknown, "other")
    with pytest.raises(BadSpec, match=r"Else: unknown field"):
        parse(spec)


def test_a_field_of_which_the_schema_tells_no_value_must_be_told_one() -> None:
    known_values = {**dict.fromkeys(VALUES)}
    assert set(known_values) <= {field.path for field in list_fields()}, "no such field any more"
    strange = SpecField("spark.strange", {"type": "object"})
    with pytest.raises(AssertionError, match=r"spark\.strange.*see VALUES"):
        strange.choose_another(None)
