"""Load a `Pipeline` from the YAML of a user, or raise a BadSpec that says what to correct.

Null means absent, as to the API server; how YAML is read is in `yaml_text`. Knows neither cluster
nor Spark; the process environment is an argument.
"""

import math
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from icdc_api import naming
from icdc_api.crd import explain, yaml_text
from icdc_api.errors import BadSpec
from icdc_api.problems import format_value
from icdc_api.spec import limits
from icdc_api.spec.pipeline import Pipeline

STANDARD_INPUT: Final = Path("-")
"""Stands for what is piped into the process, as in `kubectl apply -f -`."""
# The API server would refuse more: an object has at most 1.5 MB in etcd.
MAX_FILE_BYTES = 1 << 20
_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
_VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BARE_VARIABLE: Final = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)(?=/|$)")
_ADDRESSES: Final = ("warehouse", "uri")
"""Properties that begin with no dollar sign; a password may."""
# Below these keys the schema is open, and a null there may mean something.
_OPEN_KEYS = frozenset({"template", "indexSettings"})
_OPEN_VALUES_KEYS = frozenset({"mapping"})


def load_resource(path: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Return the document in a YAML file as plain values, unchecked; or BadSpec.

    `${NAME}` in values of properties is replaced from `env`; a field without a value is left out,
    as the API server does. Every line of the error begins with the name of the file.
    """
    return expand(load_document(path), env, source=name_source(path))


def load_document(path: Path) -> dict[str, Any]:
    """Return the one document of a YAML file, unchecked; or BadSpec."""
    allowed = f"one {naming.KIND}, a mapping with kind: {naming.KIND}"
    source = name_source(path)
    document = yaml_text.parse_document(read_text(path), source, allowed=allowed)
    infinite = list(_find_infinite(document, ()))
    if infinite:
        raise BadSpec(explain.format_lines(infinite, source=source))
    return document


def expand(document: Mapping[str, Any], env: Mapping[str, str], *, source: str) -> dict[str, Any]:
    """Return a copy of a document, changed as by `load_resource`."""
    present: dict[str, Any] = _without_nulls(document)
    return _substitute(present, env, source)


def name_source(path: Path) -> str:
    """Return what messages call a file."""
    return "standard input" if path == STANDARD_INPUT else str(path)


def parse_pipeline(document: Mapping[str, Any], *, source: str) -> Pipeline:
    """Return `document` as a pipeline; or BadSpec, every line of which begins with `source`."""
    # First: of another kind, pydantic would complain about every field instead.
    _check_kind(document, source)
    try:
        pipeline = Pipeline.model_validate(_without_nulls(document), by_alias=True, by_name=False)
    except ValidationError as error:
        raise BadSpec(explain.format_error(error, source=source)) from error
    excess = list(limits.find_excess(pipeline.spec))
    if excess:
        raise BadSpec(explain.format_lines(excess, source=source))
    return pipeline


def parse_stored(resource: Mapping[str, Any], *, source: str) -> Pipeline:
    """Return the pipeline of an object as the API server gives it; or BadSpec, see above."""
    document = {key: resource.get(key) for key in ("apiVersion", "kind", "spec")}
    # Kubernetes may add metadata fields that the strict models do not know.
    metadata = {key: resource["metadata"].get(key) for key in ("name", "namespace")}
    return parse_pipeline({**document, "metadata": metadata}, source=source)


def read_text(path: Path) -> str:
    """Return the text of a file of a bounded size; or BadSpec."""
    source = name_source(path)
    try:
        if path == STANDARD_INPUT:
            data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            data = path.read_bytes()
    except FileNotFoundError as error:
        raise BadSpec(f"{source}: there is no such file") from error
    except OSError as error:
        raise BadSpec(f"{source}: cannot be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise BadSpec(f"{source}: larger than {MAX_FILE_BYTES} bytes: this is not a pipeline")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadSpec(f"{source}: not UTF-8 text: byte {error.start}") from error


def _check_kind(document: Mapping[str, Any], source: str) -> None:
    expected = {"apiVersion": naming.API_VERSION, "kind": naming.KIND}
    for field, allowed in expected.items():
        actual = document.get(field)
        if actual is None:
            raise BadSpec(f"{source}: {field}: missing; allowed: {allowed}")
        if actual != allowed:
            raise BadSpec(
                f"{source}: {field}: {format_value(actual)} is not allowed; allowed: {allowed}"
            )


def _find_infinite(value: Any, path: tuple[str | int, ...]) -> Iterator[str]:
    """Yield a sentence for each number that JSON, and so the API server, does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{explain.format_path(path)}: {value} is not allowed: a number must be finite"
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _find_infinite(item, (*path, str(key)))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _find_infinite(item, (*path, position))


def _without_nulls(value: Any, key: object = None) -> Any:
    """Return `value` without nulls: like the API server, which drops them as absent fields."""
    if key in _OPEN_KEYS:
        return value
    if isinstance(value, Mapping):
        present = {name: item for name, item in value.items() if item is not None}
        if key in _OPEN_VALUES_KEYS:
            return present
        return {name: _without_nulls(item, name) for name, item in present.items()}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _substitute(document: dict[str, Any], env: Mapping[str, str], source: str) -> dict[str, Any]:
    """Return `document` with `${ENV}` replaced in the values of catalog properties."""
    problems: list[str] = []

    def replace(value: Any, path: tuple[str | int, ...]) -> Any:
        if isinstance(value, dict):
            return {name: replace(item, (*path, name)) for name, item in value.items()}
        if isinstance(value, list):
            return [replace(item, (*path, position)) for position, item in enumerate(value)]
        # Only there, where credentials may stand. In a filter `${…}` is plain text.
        if isinstance(value, str) and path[-3:-1] == ("catalog", "properties"):
            bare = _BARE_VARIABLE.match(value) if path[-1] in _ADDRESSES else None
            if bare is not None:
                # Left as it stands it would be the name of a directory.
                problems.append(
                    f"{explain.format_path(path)}: {format_value(bare.group())} is not replaced: "
                    f"write ${{{bare.group(1)}}}"
                )
            return _VARIABLE.sub(lambda match: find_variable(match, path), value)
        return value

    def find_variable(match: re.Match[str], path: tuple[str | int, ...]) -> str:
        name = match.group(1)
        if not _VARIABLE_NAME.fullmatch(name):
            problems.append(
                f"{explain.format_path(path)}: {format_value(match.group())} is not the name of a "
                "variable"
            )
        elif name not in env:
            problems.append(f"{explain.format_path(path)}: the variable {name} is not set")
        # Goes on after a problem: whoever corrects the file hears of all unset variables at once.
        return env.get(name, "")

    result = {name: replace(item, (name,)) for name, item in document.items()}
    if problems:
        raise BadSpec(explain.format_lines(problems, source=source))
    return result
