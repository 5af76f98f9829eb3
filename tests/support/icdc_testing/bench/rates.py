"""What writing or comparing documents took, and the same for a million of them.

Plain arithmetic, so that a test can check it in no time. It must not know who works.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MILLION = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What one piece of work took."""

    documents: int
    """The documents that it was about."""
    seconds: float
    """Elapsed time."""
    client: float
    """CPU seconds of all processes of the client: Python, JVM and workers."""
    python: float
    """Those of them that are not of the JVM."""
    server: float
    """CPU seconds of OpenSearch."""


@dataclass(frozen=True, kw_only=True)
class MillionRate:
    """The medians of several rounds of one way."""

    documents_per_second: float
    """Until the last document was acknowledged."""
    client: float
    """CPU seconds for a million documents."""
    python: float
    """Those of them that are not of the JVM."""
    server: float
    """CPU seconds of OpenSearch for a million documents."""
    slowest: float
    """Documents a second in the slowest round."""
    fastest: float
    """Documents a second in the fastest round."""


def summarise_rounds(rounds: Sequence[Spent]) -> MillionRate:
    """Return the medians of the rounds, each figure by itself."""
    speeds = [spent.documents / spent.seconds for spent in rounds]
    return MillionRate(
        documents_per_second=statistics.median(speeds),
        client=statistics.median(spent.client * MILLION / spent.documents for spent in rounds),
        python=statistics.median(spent.python * MILLION / spent.documents for spent in rounds),
        server=statistics.median(spent.server * MILLION / spent.documents for spent in rounds),
        slowest=min(speeds),
        fastest=max(speeds),
    )


def choose_ceiling(rates: Mapping[str, MillionRate]) -> str:
    """Return the name of the fastest of several ways by their medians."""
    return max(rates, key=lambda name: rates[name].documents_per_second)
