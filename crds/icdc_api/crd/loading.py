"""Load a `Pipeline` from the YAML of a user, or raise a BadSpec that says what to correct.

Reads YAML as `kubectl` does: one document, no key twice, dates stay text, null means absent. Knows
neither cluster nor Spark; the process environment is an argument.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from icdc_api import naming
from icdc_api.crd import explain
from icdc_api.errors import BadSpec
from icdc_api.problems import format_value
from icdc_api.spec import limits
from icdc_api.spec.pipeline import Pipeline

STANDARD_INPUT: Final = Path("-")
"""Stands for what is piped into the process, as in `kubectl apply -f -`."""
# The API server would refuse more: an object has at most 1.5 MB in etcd.
MAX_FILE_BYTES = 1 << 20
# After aliases are expanded. A pipeline of 500 tables has some thousand values, ten levels deep.
MAX_VALUES = 100_000
MAX_DEPTH = 64
_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
_VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Below these keys the schema is open, and a null there may mean something.
_OPEN_KEYS = frozenset({"template", "indexSettings"})
_OPEN_VALUES_KEYS = frozenset({"mapping"})


class _Loader(yaml.SafeLoader):
    """SafeLoader without dates, and with an error for a key that stands twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        # Before `super` merges what `<<` names: a key of its own may override a merged one.
        seen: set[str] = set()
        for key, _ in node.value:
            # A list or a mapping as a key is refused by `super`, as it cannot be hashed.
            if not isinstance(key, yaml.ScalarNode):
                continue
            # PyYAML silently takes the last of two equal keys; kubectl refuses them.
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {format_value(key.value)} occurs twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


# Without timestamps: YAML would make 2024-03-15 a date, where the models want the text.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load_resource(path: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Return the document in a YAML file as plain values, unchecked; or BadSpec.

    `${NAME}` in values of properties is replaced from `env`; a field without a value is left out,
    as the API server does. Every line of the error begins with the name of the file.
    """
    return expand(load_document(path), env, source=name_source(path))


def load_document(path: Path) -> dict[str, Any]:
    """Return the one document of a YAML file of whatever kind; or BadSpec."""
    return _parse_document(_read_text(path), name_source(path))


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


def _read_text(path: Path) -> str:
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


def _parse_document(text: str, source: str) -> dict[str, Any]:
    try:
        # The loader is a SafeLoader: it builds plain values only.
        # All of them, though one is allowed: a closing `---` begins an empty one, which kubectl
        # passes over too.
        documents = [item for item in yaml.load_all(text, _Loader) if item is not None]
    except yaml.YAMLError as error:
        raise BadSpec(f"{source}: not YAML: {_describe_yaml_problem(error)}") from error
    except (ValueError, RecursionError) as error:
        raise BadSpec(f"{source}: not YAML that can be read: {error}") from error
    if not documents:
        raise BadSpec(f"{source}: the file is empty; allowed: one {naming.KIND}")
    if len(documents) > 1:
        raise BadSpec(f"{source}: contains {len(documents)} documents; allowed: one {naming.KIND}")
    (document,) = documents
    if not isinstance(document, dict):
        kind = explain.describe_kind(document)
        raise BadSpec(f"{source}: contains {kind}; allowed: a mapping with kind: {naming.KIND}")
    _check_size(document, source)
    return document


def _check_size(document: dict[str, Any], source: str) -> None:
    """Raise BadSpec for a document that aliases make huge, or that contains itself."""
    # By levels, not by recursion: a list that an alias puts into itself has no last level.
    level: list[Any] = [document]
    count = depth = 0
    while level and count <= MAX_VALUES and depth <= MAX_DEPTH:
        below = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        count, depth, level = count + sum(map(len, level)), depth + 1, below
    if level:
        # An alias bomb is small as text, so only what it expands to can be bounded.
        raise BadSpec(
            f"{source}: nested deeper than {MAX_DEPTH} levels, or too large because of its YAML "
            "aliases"
        )


def _describe_yaml_problem(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError):
        return " ".join(str(error).split())
    mark = error.problem_mark or error.context_mark
    position = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return position + (error.problem or error.context or "it cannot be parsed")


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
