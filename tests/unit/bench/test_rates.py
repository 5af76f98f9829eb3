"""What benchmarks make of their rounds."""

from collections.abc import Sequence

import pytest

from icdc_testing.bench.rates import MillionRate, Spent, choose_ceiling, summarise_rounds

pytestmark = pytest.mark.unit


def make_round(documents: int, seconds: float, client: float = 0.0) -> Spent:
    """Return a round in which Python takes half of the client's time and OpenSearch all."""
    return Spent(
        documents=documents, seconds=seconds, client=client, python=client / 2, server=seconds
    )


def test_a_rate_has_the_medians_of_its_rounds_for_a_million_documents() -> None:
    rounds = [make_round(1000, 1.0, 0.5), make_round(1000, 4.0, 0.1), make_round(1000, 2.0, 0.2)]
    assert summarise_rounds(rounds) == MillionRate(
        documents_per_second=500.0,
        client=200.0,
        python=100.0,
        server=2000.0,
        slowest=250.0,
        fastest=1000.0,
    )


@pytest.mark.parametrize(
    ("seconds", "fastest"),
    [
        ({"one": [2.0, 2.0, 2.0], "two": [1.0, 1.0, 1.0]}, "two"),
        # One lucky round is no ceiling.
        ({"one": [2.0, 2.0, 2.0], "two": [0.5, 3.0, 3.0]}, "one"),
    ],
)
def test_the_ceiling_is_the_way_that_is_fastest_in_the_median(
    seconds: dict[str, Sequence[float]], fastest: str
) -> None:
    rates = {
        name: summarise_rounds([make_round(1000, second) for second in each])
        for name, each in seconds.items()
    }
    assert choose_ceiling(rates) == fastest
