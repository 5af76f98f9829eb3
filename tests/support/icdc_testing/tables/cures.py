"""The cures of reasons as `icdc explain` says them, typed as somebody does who reads them."""

import os

from icdc_api.status.pipeline_status import TableReason
from icdc_cli.explanations import lookup
from icdc_cli.explanations.entry import Family
from icdc_testing.tables.scenarios import Act, ScenarioTable
from icdc_testing.user_programs import pages

_SECONDS = 60.0


def list_cures(reason: TableReason) -> tuple[str, ...]:
    """Return the commands of a reason's cure."""
    (entry,) = (
        one for one in lookup.list_all() if (one.family, one.word) == (Family.REASON, reason.value)
    )
    return entry.cure


def find_cure(reason: TableReason, part: str) -> str:
    """Return the one command of a reason's cure that has this part."""
    (command,) = (one for one in list_cures(reason) if part in one)
    return command


def type_request(command: str, url: str, index: str) -> str:
    """Type a command of curl, with the address of OpenSearch and the alias of an index."""
    typed = command.replace("SEARCH", url).replace("INDEX", index)
    # Else curl does not notice an answer that is an error.
    failing = typed.replace("curl", "curl --silent --show-error --fail-with-body", 1)
    return pages.type_commands(failing, os.environ, seconds=_SECONDS)


def send_cure(reason: TableReason, part: str) -> Act:
    """Return the act of typing the command of curl that has this part."""

    def act(stage: ScenarioTable) -> None:
        type_request(find_cure(reason, part), stage.url, stage.scenario.alias)

    return act
