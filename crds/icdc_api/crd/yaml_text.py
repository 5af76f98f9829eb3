"""Read the text of a YAML file as plain values, or raise a BadSpec that says where it is wrong.

As `kubectl` reads it: one document, no key twice, dates stay text, a pair of surrogates is one
character. Knows nothing of what the document means.

    text                 parse_document       with as_written=True
    id: 012345670123     1402433619           "012345670123"
    on: 12:30:00         {True: 45000}        {"on": "12:30:00"}
    name: ~              None                 None
"""

from typing import Any, Final

import yaml

from icdc_api.crd import explain
from icdc_api.errors import BadSpec
from icdc_api.problems import format_value
from icdc_api.redaction import hide_quoted

# After aliases are expanded. A pipeline of 500 tables has some thousand values, ten levels deep.
MAX_VALUES = 100_000
MAX_DEPTH = 64

_NULL: Final = "tag:yaml.org,2002:null"
_MERGE: Final = "tag:yaml.org,2002:merge"
_TEXT: Final = "tag:yaml.org,2002:str"


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
                raise _refuse(f"the key {format_value(key.value)} occurs twice", key)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_scalar(self, node: Any) -> Any:
        value = super().construct_scalar(node)
        try:
            # JSON writes a character such as 😀 as the escapes of two halves, and YAML holds JSON.
            return value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            # No encoding could write it, so it would be found out later, in a request.
            raise _refuse("a text has one half of a pair of surrogates", node) from None

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        # Of PyYAML's own functions, which trust the tag: of !!bool x, !!float '' or 5000 digits.
        except (ValueError, LookupError, AttributeError, OverflowError):
            raise _refuse("a value that cannot be read; put it in quotes", node) from None


# Without timestamps: YAML would make 2024-03-15 a date, where the models want the text.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _WrittenLoader(_Loader):
    """Takes each value but null as the text that it is written as, keys included."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                key.tag = _TEXT
        return super().construct_mapping(node, deep)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        if isinstance(node, yaml.ScalarNode) and node.tag != _NULL:
            return self.construct_scalar(node)
        return super().construct_object(node, deep)


_WrittenLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag in (_NULL, _MERGE)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse_document(
    text: str, source: str, *, allowed: str, as_written: bool = False
) -> dict[str, Any]:
    """Return the one document of a file, a mapping; BadSpec, which begins with `source`, else.

    `allowed` says in messages what the file should have. `as_written` is for files that may hold
    credentials anywhere: values stay the text that they are, and no message repeats one.
    """
    try:
        # The loaders are SafeLoaders: they build plain values only.
        # All of them, though one is allowed: a closing `---` begins an empty one, which kubectl
        # passes over too.
        loader = _WrittenLoader if as_written else _Loader
        documents = [item for item in yaml.load_all(text, loader) if item is not None]
    except yaml.YAMLError as error:
        problem = _describe_yaml_problem(error)
        problem = hide_quoted(problem) if as_written else problem
        raise BadSpec(f"{source}: not YAML: {problem}") from error
    except RecursionError as error:
        raise BadSpec(f"{source}: nested deeper than {MAX_DEPTH} levels") from error
    if not documents:
        raise BadSpec(f"{source}: the file is empty; allowed: {allowed}")
    if len(documents) > 1:
        raise BadSpec(f"{source}: contains {len(documents)} documents; allowed: {allowed}")
    (document,) = documents
    if not isinstance(document, dict):
        kind = explain.describe_kind(document)
        raise BadSpec(f"{source}: contains {kind}; allowed: {allowed}")
    _check_size(document, source)
    return document


def _refuse(problem: str, node: yaml.Node) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


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
