"""Every function of Spark, sorted by the check of `fields` and `rowFilter`: accepted, or refused.

The table `functions.tsv` has a call of each, and of those that are refused a part of the message.
A function that a later Spark brings is in no line, and somebody has to sort it; so is a function
that may depend on more than the row, which the check can only know by its name.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.errors import FieldInvalid
from icdc_spark.documents.fields import Analyse
from icdc_spark.documents.schema import Field, Primitive, Schema
from icdc_spark.iceberg.table.expressions import build_analyser

pytestmark = pytest.mark.spark

COLUMNS = {"id": "int", "c": "string", "x": "double", "d": "date", "ts": "timestamptz"}
SCHEMA = Schema(
    0, tuple(Field(at, name, Primitive(kind)) for at, (name, kind) in enumerate(COLUMNS.items()))
)


def read_lines() -> list[tuple[str, str, str]]:
    """Return function, call and reason; an empty reason for what is accepted."""
    _, *lines = Path(__file__).with_name("functions.tsv").read_text("utf-8").splitlines()
    return [(name, call, reason) for name, call, reason in (line.split("\t") for line in lines)]


def refuse(analyse: Analyse, call: str) -> str:
    """Return why a call is refused; empty for one that is accepted."""
    try:
        analyse(SCHEMA, "made", call)
    except FieldInvalid as error:
        return error.message.partition(" of field `made`")[2]
    return ""


def test_the_table_has_a_call_of_every_function(spark: SparkSession) -> None:
    lines = read_lines()
    functions = {row["function"] for row in spark.sql("show system functions").collect()}
    assert {name for name, _, _ in lines} == functions
    assert [line for line in lines if line[0] not in line[1].lower()] == []


def test_each_call_is_accepted_or_refused_for_the_reason_in_the_table(spark: SparkSession) -> None:
    analyse, lines = build_analyser(spark, "shop.orders"), read_lines()
    accepted = [call for _, call, reason in lines if not reason]
    wrong = {}
    # In one expression: it is the analysis of a plan that takes time, and not that of its parts.
    if refuse(analyse, f"struct({', '.join(accepted)})"):
        wrong = {call: message for call in accepted if (message := refuse(analyse, call))}
    for _, call, reason in lines:
        if reason and reason not in (message := refuse(analyse, call)):
            wrong[call] = message or "accepted"
    assert not wrong, "\n".join(f"{call}: {message}" for call, message in wrong.items())
