"""Mappings that make searches work, each with a search that finds the document by it.

One table has a column for each case, so that one export shows all of them on a version of
OpenSearch. Row 1 is found; row 2 has other values everywhere. `IN_DISTRIBUTIONS` are those that
take what a plain node of the tests does not have, and every distribution of OpenSearch does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from icdc_testing.tables.fields import derive

ANALYSIS: dict[str, Any] = {
    "filter": {"devices": {"type": "synonym", "synonyms": ["laptop, notebook"]}},
    "analyzer": {"shop": {"tokenizer": "standard", "filter": ["lowercase", "devices"]}},
    "normalizer": {"plain": {"type": "custom", "filter": ["lowercase"]}},
}
"""Of `indexSettings`."""

Query = dict[str, Any]


@dataclass(frozen=True)
class SearchCase:
    """One field of the documents, and a search of it."""

    name: str
    """The field."""
    expression: str
    """What makes it; {} stands for a word that only row 1 has, or that only row 2 has."""
    mapping: dict[str, Any]
    """Its mapping."""
    search: Callable[[str], Query]
    """The search by that word."""

    @property
    def field(self) -> dict[str, Any]:
        """The entry of `fields`; the word is in the column `word`."""
        return derive(self.name, self.expression, mapping=self.mapping)


def match(field: str, text: str) -> Query:
    return {"match": {field: text}}


NOTHING = "cast(null as string)"
"""A field that is in the mapping alone: other fields are copied to it, or it names another."""

CASES = (
    SearchCase(
        "synonym",
        "concat(word, ' notebook')",
        {"type": "text", "analyzer": "shop"},
        lambda word: {
            "bool": {"must": [match("synonym", "laptop"), match("synonym", word.upper())]}
        },
    ),
    SearchCase(
        "normal",
        "upper(word)",
        {"type": "keyword", "normalizer": "plain"},
        lambda word: {"term": {"normal": word}},
    ),
    SearchCase(
        "multi",
        "concat('Houses of ', word)",
        {"type": "keyword", "fields": {"en": {"type": "text", "analyzer": "english"}}},
        lambda word: {
            "bool": {
                "must": [match("multi.en", "house"), {"term": {"multi": f"Houses of {word}"}}],
                "must_not": [match("multi", "house")],
            }
        },
    ),
    SearchCase("everything", NOTHING, {"type": "text"}, lambda word: match("everything", word)),
    SearchCase(
        "copied",
        "word",
        {"type": "keyword", "copy_to": "everything"},
        lambda word: match("copied", word),
    ),
    SearchCase(
        "other_name",
        NOTHING,
        {"type": "alias", "path": "copied"},
        lambda word: {"term": {"other_name": word}},
    ),
    SearchCase(
        "lines",
        "array(named_struct('sku', word, 'n', id), named_struct('sku', 'any', 'n', 9))",
        {"type": "nested"},
        lambda word: {
            "nested": {
                "path": "lines",
                "query": {"bool": {"must": [match("lines.sku", word), {"term": {"lines.n": 1}}]}},
            }
        },
    ),
    SearchCase(
        "place",
        "named_struct('lat', 50.0d + id, 'lon', 4.9d)",
        {"type": "geo_point"},
        lambda _: {"geo_distance": {"distance": "9km", "place": {"lat": 51.01, "lon": 4.9}}},
    ),
    SearchCase(
        "address",
        "concat('10.0.', id, '.7')",
        {"type": "ip"},
        lambda _: {"term": {"address": "10.0.1.0/24"}},
    ),
    SearchCase(
        "day",
        "concat('0', id, '/11/2026')",
        {"type": "date", "format": "dd/MM/yyyy"},
        lambda _: {"range": {"day": {"lt": "02/11/2026"}}},
    ),
    SearchCase(
        "validity",
        "named_struct('gte', concat('2026-0', id, '-01'), 'lt', concat('2026-0', id, '-20'))",
        {"type": "date_range"},
        lambda _: {"term": {"validity": "2026-01-15"}},
    ),
    SearchCase(
        "rank",
        "1.0d / id",
        {"type": "rank_feature"},
        lambda word: {
            "bool": {
                "must": [match("copied", word)],
                "should": [{"rank_feature": {"field": "rank"}}],
            }
        },
    ),
    SearchCase(
        "topics",
        "map(word, 2.5d)",
        {"type": "rank_features"},
        lambda word: {"rank_feature": {"field": f"topics.{word}"}},
    ),
    SearchCase(
        "attributes",
        "map('colour', word)",
        {},
        lambda word: {"term": {"attributes.colour": word}},
    ),
    SearchCase(
        "pattern",
        "concat('x', word, 'y')",
        {"type": "wildcard"},
        lambda word: {"wildcard": {"pattern": f"?{word[:-1]}*"}},
    ),
    SearchCase(
        "typed",
        "concat(word, ' and more')",
        {"type": "search_as_you_type"},
        lambda word: {
            "multi_match": {
                "query": f"{word} an",
                "type": "bool_prefix",
                "operator": "and",
                "fields": ["typed", "typed._2gram", "typed._3gram"],
            }
        },
    ),
)

IN_DISTRIBUTIONS = (
    SearchCase(
        "area",
        "concat('POLYGON ((', id, ' 0, ', id, ' 1, ', id, '.5 1, ', id, ' 0))')",
        {"type": "geo_shape"},
        lambda _: {"geo_shape": {"area": {"shape": "POINT (1.1 0.8)"}}},
    ),
    SearchCase(
        "vector",
        "array(float(id), float(ascii(word)), 0.5f)",
        {"type": "knn_vector", "dimension": 3, "method": {"name": "hnsw", "engine": "lucene"}},
        lambda word: {"knn": {"vector": {"vector": [1, ord(word[0]), 0.5], "k": 1}}},
    ),
)
"""`geo_shape` takes two libraries, `knn_vector` the plugin k-NN and `indexSettings.knn`."""

SUGGESTED = derive("suggested", "word", mapping={"type": "completion"})
"""Found by a suggester, which is no query."""

COLUMNS = "id int, word string"


def suggest(prefix: str) -> dict[str, Any]:
    """Return the body of a search that completes a word."""
    return {"suggest": {"words": {"prefix": prefix, "completion": {"field": "suggested"}}}}
