"""States of runs that have ended. Those of the current run are reasons of RunActive."""

from icdc_api.status.runs import RunState
from icdc_cli.explanations import cures, sources
from icdc_cli.explanations.entry import NAMED, NOT_NEEDED, Explanation, Family

_ACTIONS: dict[RunState, tuple[str, tuple[str, ...]]] = {
    RunState.SUCCEEDED: (NOT_NEEDED, ()),
    RunState.FAILED: (NAMED, (f"{cures.STATUS}  # class, reason and message", cures.LOGS)),
}
"""Who acts, and the cure."""


def list_run_states() -> list[Explanation]:
    """Return the states of `status.lastRun.state`."""
    texts = sources.read_members("icdc_api", "status/runs.py", RunState.__name__)
    return [
        Explanation(state.value, Family.RUN_STATE, texts[state.value], who, cure)
        for state, (who, cure) in _ACTIONS.items()
    ]
