"""Parses the resource of a pipeline once, however many worlds and runs have the same."""

import json
from functools import lru_cache
from typing import Any

from icdc_api.spec.pipeline import Pipeline


def parse_pipeline(resource: dict[str, Any]) -> Pipeline:
    """Return the pipeline of a resource: a value, which many may share."""
    return _parse(json.dumps(resource, sort_keys=True))


@lru_cache(maxsize=256)
def _parse(text: str) -> Pipeline:
    return Pipeline.model_validate(json.loads(text))
