"""Turn errors of pydantic into lines for the person who wrote the document.

Each line: file, full path of the field, the value, what is allowed. Values of properties are never
shown, since they may be secrets.

    type: enum, loc: (spec, mode), input: Both
    shop.yaml: spec.mode: 'Both' is not allowed: allowed: ExportAndStream, ExportOnly or StreamOnly
    type: extra_forbidden, loc: (spec, tabels)
    shop.yaml: spec.tabels: unknown field; did you mean tables?
"""

import difflib
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from icdc_api import naming
from icdc_api.problems import MAX_SHOWN, PROBLEM, format_value
from icdc_api.spec.catalog import CATALOG_NAME_FORM, OBJECT_NAME_FORM
from icdc_api.spec.pipeline import Pipeline
from icdc_api.spec.spark import PATH_FORM, SIZE_FORM

MAX_LINES = 10
"""Problems that are listed one by one: whoever corrects ten loads the file again anyway."""

_SECRET_MAPS = frozenset({"properties", "conf"})
"""Maps whose values may be secrets, and are never shown."""

_SYNONYMS = {
    **dict.fromkeys(
        ("primarykey", "key", "keys", "keycolumns", "id", "idcolumns", "documentid"),
        "identifierColumns",
    ),
    **dict.fromkeys(("filter", "where"), "rowFilter"),
    **dict.fromkeys(("table", "tablename"), "name"),
    "elasticsearch": "opensearch",
}
"""Names that others have for a field, in lower case and without underscores."""

_LABEL = "lower-case letters, digits and dashes"
FORMS: Mapping[str, str] = {
    naming.PIPELINE_NAME_PATTERN: naming.PIPELINE_NAME_WORDS,
    naming.NAMESPACE_PATTERN: f"{_LABEL}; it neither begins nor ends with a dash",
    OBJECT_NAME_FORM: "lower-case letters, digits, dashes and dots; it begins with a letter or "
    "digit, and ends with one",
    CATALOG_NAME_FORM: "letters, digits, underscores and dashes; it begins with no dash",
    PATH_FORM: "an absolute path, which begins with a slash",
    SIZE_FORM: "a size of Kubernetes, such as 100Gi",
}
"""What each regular expression of a spec allows, in words."""

# bool before int, of which it is a subclass in Python.
_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "text"),
    (dict, "a mapping"),
    (list, "a list"),
)
_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "tuple_type": "a list",
}


def format_error(error: ValidationError, *, source: str) -> str:
    """Return all problems, one per line, at most MAX_LINES of them."""
    # The address leads to pydantic's own pages, of no use to whoever wrote the YAML.
    details = error.errors(include_url=False)
    problems = (_format_line(detail) for detail in details if not _is_echo(detail, details))
    return format_lines(problems, source=source)


def _is_echo(error: ErrorDetails, every: Iterable[ErrorDetails]) -> bool:
    """Return whether a list is reported as too short only because its bad items do not count."""
    path = error["loc"]
    return error["type"] == "too_short" and any(
        len(other["loc"]) > len(path) and other["loc"][: len(path)] == path for other in every
    )


def format_lines(problems: Iterable[str], *, source: str) -> str:
    """Return one line for each problem, beginning with `source`; after MAX_LINES a count."""
    # Each once: a property that names an unset variable twice gives the same line twice.
    every = list(dict.fromkeys(problems))
    result = [f"{source}: {problem}" for problem in every[:MAX_LINES]]
    if len(every) > MAX_LINES:
        result.append(f"{source}: and {len(every) - MAX_LINES} more problems")
    return "\n".join(result)


def format_path(path: Sequence[str | int]) -> str:
    """Return `path` as `spec.tables[0].name`; a map key that is no plain name as `['a.b']`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.replace("-", "").replace("_", "").isalnum():
            name = part[:MAX_SHOWN]
            text += f".{name}" if text else name
        else:
            text += f"[{format_value(part)}]"
    return text


def describe_kind(value: object) -> str:
    """Return the kind of `value` for a message, such as "a whole number"."""
    for kind, words in _KINDS:
        if isinstance(value, kind):
            return words
    return "nothing" if value is None else type(value).__name__


def _format_line(error: ErrorDetails) -> str:
    kind, context = error["type"], error.get("ctx", {})
    # pydantic marks a problem of a key, as against one of its value, by this part of the path.
    path = tuple(part for part in error["loc"] if part != "[key]")
    # First: the text of our own validators is complete, and says where below the model it is.
    if kind == PROBLEM:
        return f"{format_path((*path, *context['field']))}: {context['text']}"
    if kind == "invalid_key":
        where = format_path(path[:-1]) or "document"
        return f"{where}: the key {format_value(error['input'])} is not text{_hint(error['input'])}"
    if "[key]" in error["loc"]:
        key = format_value(error["input"])
        return f"{format_path(path[:-1])}: the key {key} is not allowed: {_describe_rule(error)}"
    if kind == "extra_forbidden":
        return f"{format_path(path)}: unknown field; {_suggest_field(path)}"
    if kind == "missing":
        return f"{format_path(path)}: missing; the field is required"
    value = _describe_value(path, error["input"])
    return f"{format_path(path)}: {value} is not allowed: {_describe_rule(error)}"


def _describe_value(path: Sequence[str | int], value: object) -> str:
    # Below such a map, not the map itself: "a mapping of 3" shows nothing.
    if _SECRET_MAPS.intersection(path[:-1]):
        return f"the value ({describe_kind(value)})"
    if isinstance(value, Mapping | list | tuple):
        return (
            f"{describe_kind(list(value) if isinstance(value, tuple) else value)} of {len(value)}"
        )
    return format_value(value)


def _describe_rule(error: ErrorDetails) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in _WANTED:
        hint = _hint(error["input"]) if kind == "string_type" else ""
        return f"it must be {_WANTED[kind]}{hint}"
    match kind:
        case "enum" | "literal_error":
            # Without the quotes of Python: the values are written bare in YAML.
            return f"allowed: {context['expected'].replace(chr(39), '')}"
        case "greater_than_equal":
            return f"it must be at least {context['ge']}"
        case "less_than_equal":
            return f"it must be at most {context['le']}"
        case "string_pattern_mismatch":
            # A status may be in the document, too, of which nobody has to correct anything.
            form = FORMS.get(context["pattern"])
            return f"allowed: {form}" if form else f"it must match {context['pattern']}"
        case "string_too_short" | "too_short":
            return f"it must have a length of at least {context['min_length']}"
        case "string_too_long" | "too_long":
            return f"it must have a length of at most {context['max_length']}"
        case text if text.startswith("datetime"):
            return "it must be a time with a zone, as 2024-03-15T14:30:00Z"
    return error["msg"]


def _hint(value: object) -> str:
    """Return what to add where text is wanted: how YAML has made `value` of it."""
    # What was written is not known here: yes, on and true are the same value.
    if isinstance(value, bool):
        return "; put it in quotes: YAML reads yes, no, on, off, true and false as booleans"
    return "; put it in quotes" if isinstance(value, int | float) else ""


def _suggest_field(path: Sequence[str | int]) -> str:
    fields = _list_fields(Pipeline, path[:-1])
    near = difflib.get_close_matches(str(path[-1]), fields, n=1, cutoff=0.6)
    meant = _SYNONYMS.get(str(path[-1]).lower().replace("_", ""))
    if meant in fields:
        near = [str(meant)]
    if near:
        return f"did you mean {near[0]}?"
    return f"allowed: {', '.join(fields)}"


def _list_fields(model: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """Return the field names of the model at `path`, sorted; empty if there is none."""
    if not path:
        return sorted(field.alias or name for name, field in model.model_fields.items())
    head, *rest = path
    for name, field in model.model_fields.items():
        if head == (field.alias or name):
            below = _find_model(field.annotation)
            # The number of an item in a list is a part of the path, but no field of a model.
            position = 1 if rest and isinstance(rest[0], int) else 0
            return _list_fields(below, rest[position:]) if below else []
    return []


def _find_model(annotation: Any) -> type[BaseModel] | None:
    """Return the model in `annotation`, through Annotated, None and tuples; None if none."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Annotated, Union, types.UnionType, tuple):
        for argument in get_args(annotation):
            model = _find_model(argument)
            if model:
                return model
    return None
