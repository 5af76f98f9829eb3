"""Questions to a continuous run beside following its tables, such as to compare one. Pure.

Such a run never ends by itself, and a run of its own for each question would keep all tables
waiting for minutes. So the running driver is asked, if it takes questions: each table answers
between two of its batches, and the others go on. It gets one question at a time, and the request
again with each decision until the answer is in its report.

    time  asked by                     the run shop-c7-1 is asked   status
    0     spec.resync nonce 4, Verify  resync-4-<epoch>             observedTriggers.resync nonce 4
    1     icdc verify shop             (unchanged: one at a time)
    2     its report: complete         a1 (of the annotation)       verifiedNonce 4; observedAsk a1
    3     its report: complete         a1                           observedAsk a1 finished

What `spec.verify` promises is asked for one table after the other, and last of all: it gives way to
a person's question although the run has begun it.

    proof-4-1700000000000-2000    the fifth table of the spec, since that moment, in the run of
                                  epoch 2000: asked until it is answered, whatever the table's state

Refused documents alone are answered by a run of its own: the answer holds values of rows, which
would stand in the annotation of a pod that stays for months.

Each question is tried so once. Where that run ends without the answer, whatever the reason, a run
of its own answers: what ends a driver must not end it again and again, while all tables wait.
"""

import re
from collections.abc import Sequence
from datetime import datetime

from icdc_api.errors import Bug, NodeLost
from icdc_api.job.answers import RunAnswer, fill
from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunQuestion
from icdc_api.spec.changelog import Trigger
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.status.pipeline_status import PipelineStatus, TableState, TableStatus
from icdc_api.status.runs import Failure, RunKind, RunState, RunStatus
from icdc_api.status.triggers import Ask, ObservedAsk
from icdc_operator.core.asked import asks, comparisons, proofs, resyncs, verification
from icdc_operator.core.observed import AskRun, Observed, RunSeen

_PROOF = re.compile(r"proof-([0-9]{1,6})-([0-9]{1,16})-([0-9]{1,16})")
"""Id of a question for `spec.verify`: position of the table, moment in milliseconds, epoch."""


def adopt_generation(status: PipelineStatus, observed: Observed) -> PipelineStatus:
    """Return `status` whose current run counts as of this generation, if it needs no other run.

    It needs another one where the spec has changed in what the run reads, or asks for what the run
    cannot do.
    """
    run, spec = status.current_run, observed.spec
    if run is None or spec is None or run.spec_hash is None or run.ask is not None:
        return status
    if run.generation == observed.generation or run.spec_hash != observed.spec_hash:
        return status
    if run.kind.inspects or run.kind is RunKind.DELETION or run.state is RunState.PLANNED:
        return status
    run = run.model_copy(update={"generation": observed.generation})
    if not resyncs.is_new(status, spec):
        return status.model_copy(update={"current_run": run})
    seen = observed.find_run(run)
    # A run that ends by itself is followed by the comparison, so it needs not be asked.
    continuous = spec.changelog.trigger is Trigger.CONTINUOUS
    takes = not continuous or (seen is not None and seen.takes_questions)
    if not spec.resync.mode.compares or not takes:
        return status
    # With the adoption, in one write: a nonce that was acted on is never acted on again.
    triggers = resyncs.record_triggers(status, spec, epoch=run.epoch)
    return status.model_copy(update={"current_run": run, "observed_triggers": triggers})


def can_answer(ask: Ask, status: PipelineStatus, run: RunStatus, seen: RunSeen | None) -> bool:
    """Return whether the current run answers `ask` beside following its tables."""
    if ask.documents or seen is None or not seen.takes_questions:
        return False
    asked = [table for table in status.tables if ask.tables is None or table.name in ask.tables]
    # An export is one step, which may take hours; between two of its chunks the run can be stopped.
    if any(table.state is TableState.EXPORTING and not table.export_waits for table in asked):
        return False
    before = status.observed_ask
    return before is None or before.id != ask.id or before.run == run.name


def must_make_room(status: PipelineStatus, observed: Observed, run: RunStatus) -> bool:
    """Return whether a question waits for the end of the current run, which has none by itself."""
    spec, ask, seen = observed.spec, asks.find_pending(status, observed), observed.find_run(run)
    # Any other run ends by itself when its tables are done, and the question is answered next.
    if spec is None or spec.changelog.trigger != Trigger.CONTINUOUS or run.kind.inspects:
        return False
    if ask is not None:
        return not can_answer(ask, status, run, seen)
    # It has been adopted, or stayed, for the comparison that it cannot be asked for. The driver of
    # an older image says so in its reports; before the first one nobody knows.
    is_deaf = seen is not None and (seen.deaf or bool(seen.report and not seen.takes_questions))
    return is_deaf and _build_compared(status, run, spec) is not None


def advance(
    status: PipelineStatus, run: RunStatus, seen: RunSeen, observed: Observed, *, now: datetime
) -> tuple[PipelineStatus, tuple[AskRun, ...]]:
    """Return the status with what the live run has answered, and what it is to be asked now."""
    spec = observed.spec
    if spec is None or run.kind.inspects or run.kind is RunKind.DELETION:
        return status, ()
    if not seen.takes_questions:
        return status, ()
    status, withdrawn = _read_ask(status, run, seen, observed)
    status = _read_comparison(status, run, seen, spec, now=now)
    status = _read_proof(status, run, seen, now=now)
    question = _choose(status, run, seen, observed=observed, spec=spec, now=now)
    if question is None:
        # Until the report holds no question, nor its answer: the driver keeps that for a minute.
        is_held = _get_answer(seen)["question"] is not None
        return status, (AskRun(run),) if withdrawn or is_held else ()
    if observed.ask is not None and observed.ask.id == question.id:
        ask = ObservedAsk(id=question.id, run=run.name)
        status = status.model_copy(update={"observed_ask": ask})
    return status, (AskRun(run, question),)


def _choose(
    status: PipelineStatus,
    run: RunStatus,
    seen: RunSeen,
    *,
    observed: Observed,
    spec: PipelineSpec,
    now: datetime,
) -> RunQuestion | None:
    """Return the question that the run has to answer now: what it has begun comes first."""
    asked, compared = _build_asked(status, run, seen, observed), _build_compared(status, run, spec)
    begun = status.observed_ask
    if asked is not None and begun is not None and (begun.id, begun.run) == (asked.id, run.name):
        return asked
    if compared is not None and _get_answer(seen)["question"] == compared.id:
        return compared
    return asked or compared or _build_proof(status, run, seen, spec, now=now)


def _build_asked(
    status: PipelineStatus, run: RunStatus, seen: RunSeen, observed: Observed
) -> RunQuestion | None:
    """Return the question of a person, if it waits for this run."""
    ask = asks.find_pending(status, observed)
    if ask is None or not can_answer(ask, status, run, seen):
        return None
    asked = {"id": ask.id, "mode": RunMode.of(ask.mode), "only": ask.tables, "ids": ask.ids}
    return RunQuestion.model_validate(asked)


def _build_compared(
    status: PipelineStatus, run: RunStatus, spec: PipelineSpec
) -> RunQuestion | None:
    """Return the comparison that the spec asks for, once the indices of its tables are complete."""
    kind = comparisons.find_requested(status, spec)
    if kind is None or resyncs.is_new(status, spec) or not comparisons.is_ready(status, spec):
        return None
    mode = RunMode.VERIFY if kind is RunKind.VERIFY else RunMode.REPAIR
    tables = comparisons.list_table_names(status, spec)
    return RunQuestion(id=_build_comparison_id(status, run, spec), mode=mode, tables=tables)


def _build_comparison_id(status: PipelineStatus, run: RunStatus, spec: PipelineSpec) -> str:
    # With the epoch: a pipeline that was created again counts its nonces anew.
    return f"resync-{comparisons.find_requested_nonce(status, spec)}-{run.epoch}"


def _build_proof(
    status: PipelineStatus, run: RunStatus, seen: RunSeen, spec: PipelineSpec, *, now: datetime
) -> RunQuestion | None:
    """Return the comparison by `spec.verify`, once it is due; the same until it is answered."""
    if spec.proof_interval is None:
        return None
    begun = _find_begun_proof(status, run, seen, now=now)
    if begun is not None:
        return _ask_proof(spec, begun, str(_get_answer(seen)["question"]))
    due = proofs.find_next_table(status, run, spec, now=now)
    if due is None:
        return None
    table, moment = due
    identity = f"proof-{status.tables.index(table)}-{moment.timestamp() * 1000:.0f}-{run.epoch}"
    return _ask_proof(spec, table, identity)


def _ask_proof(spec: PipelineSpec, table: TableStatus, identity: str) -> RunQuestion:
    mode = RunMode.of(proofs.choose_kind(spec))
    return RunQuestion.model_validate({"id": identity, "mode": mode, "tables": (table.name,)})


def _find_begun_proof(
    status: PipelineStatus, run: RunStatus, seen: RunSeen, *, now: datetime
) -> TableStatus | None:
    """Return the table that the driver compares for `spec.verify`; None once that is recorded."""
    # Only the question says it: what is due next changes with the state of each table.
    match = _PROOF.fullmatch(str(_get_answer(seen)["question"]))
    if match is None:
        return None
    position, moment, epoch = map(int, match.groups())
    if epoch != run.epoch or position >= len(status.tables):
        return None
    table = status.tables[position]
    recorded = 0.0 if table.verification is None else table.verification.at.timestamp() * 1000
    return table if recorded < moment <= now.timestamp() * 1000 else None


def _read_ask(
    status: PipelineStatus, run: RunStatus, seen: RunSeen, observed: Observed
) -> tuple[PipelineStatus, bool]:
    """Return the status with the end of the person's question, and whether it was withdrawn."""
    before = status.observed_ask
    if before is None or before.run != run.name or before.finished:
        return status, False
    failure, withdrawn = None, False
    if not _is_answered(seen, before.id):
        if observed.ask is not None and observed.ask.id == before.id:
            return status, False
        withdrawn = True
        failure = Failure.of(NodeLost(f"the question to run {run.name} was withdrawn"))
    answer = before.model_copy(update={"finished": True, "failure": failure})
    return status.model_copy(update={"observed_ask": answer}), withdrawn


def _read_comparison(
    status: PipelineStatus, run: RunStatus, seen: RunSeen, spec: PipelineSpec, *, now: datetime
) -> PipelineStatus:
    """Return the status with the results of the comparison that the spec asked for."""
    if comparisons.find_requested(status, spec) is None or resyncs.is_new(status, spec):
        return status
    if not _is_answered(seen, _build_comparison_id(status, run, spec)):
        return status
    names = comparisons.list_table_names(status, spec)
    nonce = comparisons.find_requested_nonce(status, spec)
    tables = _read_answers(status, run, seen, names, nonce=nonce, now=now)
    return comparisons.record_answer(status.model_copy(update={"tables": tables}), nonce)


def _read_proof(
    status: PipelineStatus, run: RunStatus, seen: RunSeen, *, now: datetime
) -> PipelineStatus:
    """Return the status with the results of a comparison by `spec.verify`."""
    table = _find_begun_proof(status, run, seen, now=now)
    if table is None or _get_answer(seen)["complete"] is not True:
        return status
    tables = _read_answers(status, run, seen, (table.name,), nonce=None, now=now)
    return status.model_copy(update={"tables": tables})


def _read_answers(
    status: PipelineStatus,
    run: RunStatus,
    seen: RunSeen,
    names: Sequence[str],
    *,
    nonce: int | None,
    now: datetime,
) -> tuple[TableStatus, ...]:
    """Return the tables with the results in the run's report; all of `names` have one then."""
    answers = verification.parse_answers(seen.report)
    # Only the tables that were asked for: a report comes from a pod, and may name others.
    answers = {name: answers[name] for name in names if name in answers}
    silent = [name for name in names if name not in answers]
    tables = verification.apply_answers(status.tables, answers, nonce=nonce, now=now)
    if silent:
        text = f"run {run.name} has no answer for it; read its log"
        bug = Failure.of(Bug(text))
        tables = verification.apply_failure(tables, bug, silent, nonce=nonce, now=now)
    return tables


def _is_answered(seen: RunSeen, question: str) -> bool:
    """Return whether the run's report holds the complete answer to the question of that id."""
    answer = _get_answer(seen)
    return answer["question"] == question and answer["complete"] is True


def _get_answer(seen: RunSeen) -> RunAnswer:
    """Return what the run's report holds of a question and its answer."""
    return fill(RunAnswer, (seen.report and seen.report.result) or {})
