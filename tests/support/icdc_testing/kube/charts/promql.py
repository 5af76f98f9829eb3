"""What Prometheus makes of scrapes, by its own engine. Knows no metric, no alert, no dashboard."""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from icdc_testing.kube import binaries

_SECONDS = 120.0


class Scrape(NamedTuple):
    """What one target said at one time."""

    at: datetime
    text: str
    """In the text format of Prometheus."""
    target: Mapping[str, str]
    """Labels of the target. A series that has one of them keeps its own: `honorLabels: true`."""


class PromQuery(NamedTuple):
    """A query, or the rule of an alert."""

    expr: str
    at: datetime
    lasting: str = ""
    """How long an alert must have been pending, as in `for: 5m`."""
    texts: Mapping[str, str] = {}
    """Templates of an alert."""


class FoundSeries(NamedTuple):
    """One series of an answer; of an alert, one that fires."""

    labels: Mapping[str, str]
    value: float
    texts: Mapping[str, str]


def ask(scrapes: Iterable[Scrape], questions: Sequence[PromQuery]) -> list[list[FoundSeries]]:
    """Return for each question the series that answer it; an error of PromQL fails the test."""
    asked = {
        "scrapes": [
            {"at": scrape.at.timestamp(), "text": scrape.text, "labels": scrape.target}
            for scrape in scrapes
        ],
        "questions": [
            {
                "expr": question.expr,
                "at": question.at.timestamp(),
                "for": question.lasting,
                "texts": question.texts,
            }
            for question in questions
        ],
    }
    done = subprocess.run(
        [binaries.ensure_program("promql")],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [
        [
            FoundSeries(series["labels"], float(series["value"]), series["texts"])
            for series in answer
        ]
        for answer in json.loads(done.stdout)
    ]
