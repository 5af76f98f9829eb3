"""Fields of the CRD with values made from its schema, as the API server takes or refuses them.

A sample by the seed; every field where ICDC_SOAK is set. Nothing is stored.
"""

import json
import os
import re
from typing import Any

import pytest

from icdc_testing.kube.kubectl import Ran
from icdc_testing.kube.stored_pipelines import Pipelines, make_minimal
from icdc_testing.operator.deciding.spec_fields import (
    SpecField,
    change_fields,
    list_fields,
    make_base,
    put,
)
from icdc_testing.waiting.seeds import choose_seed

pytestmark = [pytest.mark.api, pytest.mark.timeout(1800)]

SAMPLE = 8


def choose_fields(purpose: str) -> list[SpecField]:
    everything = list(list_fields())
    _, chance = choose_seed(purpose)
    return everything if os.environ.get("ICDC_SOAK") else chance.sample(everything, SAMPLE)


def try_spec(pipelines: Pipelines, spec: dict[str, Any]) -> Ran:
    resource = json.dumps({**make_minimal(), "spec": spec})
    how = ("apply", "--server-side", "--dry-run=server", "-f", "-")
    return pipelines.run(*how, stdin=resource)


def test_a_good_value_made_from_the_schema_is_taken(pipelines: Pipelines) -> None:
    for field in choose_fields("good values"):
        ran = try_spec(pipelines, change_fields(make_base(field), field))
        assert ran.code == 0, f"{field}: {ran.err}"


def test_a_value_that_the_schema_forbids_is_refused_with_its_field(pipelines: Pipelines) -> None:
    for field in choose_fields("wrong values"):
        for value in list(field.list_wrong())[:2]:
            spec = make_base(field)
            put(spec, field.path, value)
            ran = try_spec(pipelines, spec)
            assert ran.code != 0, f"{field}: {value!r:.60} is taken"
            # An item of a list may be named by its key: .tables[name="shop.orders"].index
            where = field.error_pattern.removeprefix("spec").replace(r"\d+", r"[^\]]*")
            assert re.search(where, ran.err), f"{field}: {ran.err}"
