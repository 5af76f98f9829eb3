"""Decides what a table does while no export may write. Pure, as `next_step`.

next step                                      meanwhile
none that writes chunks of an export           that step
a re-export was asked for, and nothing else    the table is followed in its present index
any other export                               WAIT
"""

from contextlib import suppress
from dataclasses import replace

from icdc_api.errors import TableError
from icdc_spark.protocol.next_step import choose_step
from icdc_spark.protocol.policies import Policies
from icdc_spark.protocol.state_document import IntentKind, IntentPhase
from icdc_spark.protocol.steps import Step, StepInputs, StepKind


def choose_meanwhile(step: Step, inputs: StepInputs, policies: Policies) -> Step:
    """Return the step in place of `step`, which was chosen from the same inputs and policies."""
    if not _writes_chunks(step):
        return step
    # Without the request, a table for which it is the answer of a person would stall again.
    with suppress(TableError):
        unasked = choose_step(inputs, replace(policies, resync_nonce=0))
        if not _writes_chunks(unasked):
            return replace(unasked, export_waits=True)
    return Step(kind=StepKind.WAIT, reason=step.reason, export_waits=True)


def _writes_chunks(step: Step) -> bool:
    """Return whether rows are left to be exported. A complete index may be served at any time."""
    intent = step.intent
    if intent is not None and intent.kind is IntentKind.EXPORT:
        return intent.phase is IntentPhase.WRITING and intent.chunks_done < intent.chunks_total
    # The export of an empty table has none.
    return step.kind is StepKind.EXPORT and step.to_id is not None
