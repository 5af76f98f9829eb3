"""What tables of a status do not say: that it is old, or what the pipeline waits for. Pure."""

from collections.abc import Iterator
from datetime import datetime

from icdc_api.status.conditions import Condition, ConditionStatus, ConditionType
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_cli.tables import text_tables


def list_notes(status: PipelineStatus, generation: int | None, *, now: datetime) -> Iterator[str]:
    """Yield a sentence for each thing that makes the table say less than it seems to.

    Most of all a status of an older generation: whoever has just applied a spec would take what
    stands there for its result.
    """
    if status.observed_generation is None:
        yield "No operator has seen the pipeline yet."
    elif generation is not None and generation != status.observed_generation:
        yield (
            f"The status is about generation {status.observed_generation}; the operator has not "
            f"seen generation {generation} yet."
        )
    silence = find_silence(status)
    if silence is not None:
        age = text_tables.format_age(silence.last_transition_time, now)
        message = " ".join(silence.message.split())
        yield f"The lag has not been known for {age}; tables are shown {message}."
    active = status.find_condition(ConditionType.RUN_ACTIVE)
    # Before the next attempt: that time may be over while the pipeline waits for others.
    if active is not None and active.reason == "Queued":
        yield f"The next run waits for its turn: {active.message}."
    elif status.next_attempt_time is not None:
        wait = int((status.next_attempt_time - now).total_seconds())
        yield (
            "The next attempt is due."
            if wait <= 0
            else (f"The next attempt starts in {text_tables.format_duration(wait)}.")
        )


def find_silence(status: PipelineStatus) -> Condition | None:
    """Return the condition that says that nothing is heard of the driver any more, whose tables
    were caught up: what is shown of them is old. None while it is heard."""
    caught_up = status.find_condition(ConditionType.CAUGHT_UP)
    # Before the first report of all it is Unknown too, and there is nothing to be old.
    known = any(table.lag_seconds is not None for table in status.tables)
    if caught_up is None or caught_up.status is not ConditionStatus.UNKNOWN or not known:
        return None
    return caught_up
