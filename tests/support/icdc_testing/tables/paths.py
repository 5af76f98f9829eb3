"""The paths by which the same rows reach an index, as stories whose bytes must be the same."""

from collections.abc import Callable
from typing import Any

from icdc_testing.tables.playing import Told
from icdc_testing.tables.scenarios import Document, Format, Op, Step, Story


def on_every_path(
    name: str,
    form: Format,
    insert: Callable[[str], str],
    wanted: Callable[[str], list[Op]],
    **story: Any,
) -> list[Story]:
    """The stories of the same rows: exported, appended, and updated."""

    def filled(marker: str) -> Step:
        return Step(do=[insert(marker)], writes=wanted(marker), documents=documents(marker))

    def documents(marker: str) -> dict[str, Document]:
        return {key: document or {} for _, key, document in wanted(marker)}

    turned = Step(
        do=["update {t} set marker = 'new'"], writes=wanted("new"), documents=documents("new")
    )
    paths = {
        "exported": [filled("new")],
        "appended": [Step(documents={}), filled("new")],
        "updated": [filled("old"), turned],
    }
    return [
        Story(name=f"{name}_{path}", format=form, steps=steps, **story)
        for path, steps in paths.items()
    ]


def assert_same_bytes(told: Told, stories: list[Story]) -> None:
    """The last run of each story wrote the same documents, byte by byte, under the same ids."""
    exported, *others = (told[story.alias].outcomes[-1].sources for story in stories)
    assert exported
    for other in others:
        assert other == exported
