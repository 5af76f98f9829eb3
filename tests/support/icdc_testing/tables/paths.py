"""Build scenarios in which the same rows reach an index by other paths, byte by byte the same."""

from collections.abc import Callable
from typing import Any

from icdc_testing.tables.playing import Stages
from icdc_testing.tables.scenarios import Document, Format, Op, Scenario, ScenarioStep


def build_paths(
    name: str,
    form: Format,
    insert: Callable[[str], str],
    expect: Callable[[str], list[Op]],
    **fields: Any,
) -> list[Scenario]:
    """Return the scenarios of the same rows: exported, appended, and updated."""

    def fill(marker: str) -> ScenarioStep:
        return ScenarioStep(
            do=[insert(marker)], writes=expect(marker), documents=expect_documents(marker)
        )

    def expect_documents(marker: str) -> dict[str, Document]:
        return {key: document or {} for _, key, document in expect(marker)}

    change = ScenarioStep(
        do=["update {t} set marker = 'new'"],
        writes=expect("new"),
        documents=expect_documents("new"),
    )
    paths = {
        "exported": [fill("new")],
        "appended": [ScenarioStep(documents={}), fill("new")],
        "updated": [fill("old"), change],
    }
    return [
        Scenario(name=f"{name}_{path}", format=form, steps=steps, **fields)
        for path, steps in paths.items()
    ]


def assert_same_bytes(stages: Stages, scenarios: list[Scenario]) -> None:
    """Assert that the last runs of scenarios wrote the same bytes under the same ids."""
    exported, *others = (stages[scenario.alias].outcomes[-1].sources for scenario in scenarios)
    assert exported
    for other in others:
        assert other == exported
