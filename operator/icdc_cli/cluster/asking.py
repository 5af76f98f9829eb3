"""`icdc plan`, `verify` and `dead-letters` with a NAME: ask the operator, and wait for its answer.

The question is an annotation on the pipeline; a run in the cluster answers it, under the account
of the driver. So nothing of what a pipeline says (Spark properties, jars, classes, Secrets) comes
to this host: it needs neither Spark nor a JDK, and no right but to read and patch pipelines and to
read pods. The answer is in the report that the pod of the run's driver carries.

    this command                       operator and driver
    set annotation ask {id, mode}
                                       status.observedAsk {id, run}; run starts
    "the run shop-p2-1 answers …"
                                       report.result in the pod's annotation; observedAsk finished
    remove annotation, print result

The annotation is also what says that somebody still waits: the operator ends the run once it is
removed. So nothing may end this command without removing it, but a kill, after which the run goes
on to its end and costs what it costs.
"""

import argparse
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from icdc_api import naming
from icdc_api.crd import loading
from icdc_api.errors import BadSpec, NodeLost, StartTimeout
from icdc_api.job import report_text
from icdc_api.job.answers import RunAnswer, fill
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.status.conditions import ConditionStatus, ConditionType
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import Failure
from icdc_api.status.triggers import Ask, AskedKind
from icdc_cli import options, terminal
from icdc_cli.cluster import explain_next, session, status
from icdc_cli.cluster.session import Target
from icdc_cli.local.termination import raise_on_sigterm
from icdc_operator.cluster.kube import api_errors, kinds
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.runs import reports

POLL_SECONDS = 1.0
"""Between two reads of the pipeline while it has no answer. Reads and no watch: a watch takes the
right to watch pipelines, and ends with each restart of the API server; a run takes many seconds."""

TAKEN_UP_SECONDS = 60.0
"""How long an operator may take to notice a question while no run is active: more than a new
leader needs. Much less than --wait, so that a cluster without an operator is distinguished soon
from one whose run takes long."""

MAX_WITHDRAWALS = 5
"""Attempts to remove the annotation while others write the pipeline at the same time."""


@dataclass(frozen=True)
class _Obstacle:
    """What an answer waits for."""

    text: str = ""
    """One line for standard error; empty where nothing shows that an operator is at work."""
    is_another: bool = False
    """Whether it is a run that does not answer, but has to end first."""


@dataclass(frozen=True)
class ClusterAnswer:
    """The end of a question."""

    next_step: str
    """The next thing that the operator does by itself, as one line."""
    answer: dict[str, Any] | Failure
    """The result of the run, or why there is none."""


def ask(arguments: argparse.Namespace, mode: AskedKind, **details: Any) -> ClusterAnswer:
    """Ask the pipeline that the arguments name, and wait for the answer.

    `details` are further fields of the question. Raises BadSpec for what the cluster refuses or
    does not have, StartTimeout where no operator answers in time.
    """
    # Random and not counted: the status holds only the last question, and two people who ask at
    # once must not take each other's answer for theirs.
    try:
        question = Ask(id=secrets.token_hex(8), mode=mode, **details)
    except ValidationError as error:
        problems = [f"{problem['loc'][0]}: {problem['msg']}" for problem in error.errors()]
        raise BadSpec(f"this cannot be asked: {'; '.join(problems)}") from error

    async def work(target: Target, arguments: argparse.Namespace) -> ClusterAnswer:
        return await _ask(target, question, seconds=arguments.wait or options.WAIT_SECONDS)

    # Such as of `timeout` and of CI, which would leave the question, and the run that answers it.
    with raise_on_sigterm():
        return session.run_for(work, arguments)


async def _ask(target: Target, question: Ask, *, seconds: float) -> ClusterAnswer:
    resource = await target.read_pipeline()
    spec = _parse_spec(target, resource)
    source = f"{naming.SINGULAR}/{target.name}"
    options.check_tables(question.tables or (), spec, source=source)
    now = datetime.now(UTC)
    # Before the annotation is set: afterwards the next step would be to answer this question.
    step = explain_next.explain_next_step(resource, status.parse_status_of(resource), spec, now=now)
    # The right to read the answer is needed in the end; without it nothing is asked.
    await target.api.list_driver_pods(target.namespace, target.name)
    try:
        await _annotate(target, question.to_annotation())
        answered = await _wait_for_answer(target, question, seconds)
    finally:
        # Also after Ctrl-C: the operator ends a run whose question nobody asks any more.
        await _withdraw(target, question)
    return ClusterAnswer(step, await _read_answer(target, answered))


def _parse_spec(target: Target, resource: Resource) -> PipelineSpec:
    """Return the spec. BadSpec for a pipeline that can answer nothing."""
    pipeline = loading.parse_stored(resource, source=f"{naming.SINGULAR}/{target.name}")
    if resource["metadata"].get("deletionTimestamp"):
        raise BadSpec(f"{target.name} is being deleted and no longer answers questions")
    return pipeline.spec


async def _wait_for_answer(target: Target, question: Ask, seconds: float) -> PipelineStatus:
    """Return the status that says that the question was answered.

    BadSpec where another question has replaced it or the spec is wrong; StartTimeout after
    `seconds`.
    """
    asked_at, shown = time.monotonic(), ""
    # Of an operator, too, that has just ended the run before, nothing is known until it goes on.
    idle_since = asked_at
    while True:
        resource = await target.read_pipeline()
        pipeline_status = status.parse_status_of(resource)
        taken_up = pipeline_status.observed_ask
        # Before the annotation is compared: somebody may ask the next question once ours is done.
        if taken_up is not None and taken_up.id == question.id and taken_up.finished:
            return pipeline_status
        if _parse_question(resource) != question:
            raise BadSpec(f"somebody else has asked {target.name} something meanwhile: ask again")
        _check_spec(pipeline_status, resource)
        now, obstacle = time.monotonic(), _describe_obstacle(pipeline_status, question)
        waited, idle_since = now - asked_at, now if obstacle.text else idle_since
        if waited >= seconds or now - idle_since >= TAKEN_UP_SECONDS:
            raise StartTimeout(_explain_no_answer(target, obstacle, waited))
        # Once for each state: the command waits for minutes, and a line a second would hide it.
        if obstacle.text and obstacle.text != shown:
            terminal.complain(obstacle.text)
            shown = obstacle.text
        # The last read falls on the deadline, however --wait and the interval divide.
        _sleep(min(POLL_SECONDS, max(0.0, seconds - waited)))


def _check_spec(pipeline_status: PipelineStatus, resource: Resource) -> None:
    """BadSpec where the operator has refused the spec: no run starts that could answer."""
    valid = pipeline_status.find_condition(ConditionType.SPEC_VALID)
    if valid is None or valid.status != ConditionStatus.FALSE:
        return
    # Of an older generation it says nothing about the spec as it is now.
    if (valid.observed_generation or 0) >= resource["metadata"]["generation"]:
        raise BadSpec(f"no run can answer until the spec is corrected: {valid.message}")


def _sleep(seconds: float) -> None:
    """Wait, and with it the whole command: it has nothing else to do, see `thin_client`."""
    time.sleep(seconds)


def _describe_obstacle(pipeline_status: PipelineStatus, question: Ask) -> _Obstacle:
    """Return what the answer waits for.

    run shop-c4-1 follows tables                      … is active and must end first
    run shop-c4-1 has been asked this very question   … answers while it follows its tables
    run shop-p5-1 was planned for it                  … answers (Submitted)
    no run, as other pipelines have all there may be  the run that answers is queued: …
    """
    run, hindrance = pipeline_status.current_run, status.describe_hindrance(pipeline_status)
    if run is None:
        queue = status.describe_queue(pipeline_status)
        return _Obstacle(f"the run that answers is queued: {queue}" if queue else "")
    asked = pipeline_status.observed_ask
    if run.ask == question.id:
        return _Obstacle(f"the run {run.name} answers ({run.state.value}){hindrance}")
    if asked is not None and (asked.id, asked.run) == (question.id, run.name):
        return _Obstacle(f"the run {run.name} answers while it follows its tables{hindrance}")
    text = f"the run {run.name} is active and must end first{hindrance}"
    return _Obstacle(text, is_another=True)


def _explain_no_answer(target: Target, obstacle: _Obstacle, waited: float) -> str:
    """Return why there is no answer after `waited` seconds, and who can do what about it."""
    lead = f"no answer within {waited:.0f} s"
    if obstacle.text:
        logs = f"see icdc logs {target.name}"
        text = f"{lead}: {obstacle.text}; ask again with a higher --wait, {logs}"
        pause = f", or end the run by icdc pause {target.name}, as a paused pipeline answers too"
        return text + (pause if obstacle.is_another else "")
    return (
        f"{lead}: no operator has accepted the question; action required: the platform engineer "
        "must check that an operator of this version is running and watches the namespace "
        f"{target.namespace}"
    )


def _parse_question(resource: Resource) -> Ask | None:
    annotations = resource["metadata"].get("annotations") or {}
    return Ask.of_annotation(annotations.get(naming.ANNOTATION_ASK))


async def _annotate(target: Target, text: str | None, version: str | None = None) -> None:
    """Set the annotation, or remove it where `text` is None: null in a merge patch removes a key.

    With `version` only if the pipeline still has that one; kube.errors.Conflict if not.
    """
    metadata: dict[str, Any] = {"annotations": {naming.ANNOTATION_ASK: text}}
    if version is not None:
        metadata["resourceVersion"] = version
    patch = {"metadata": metadata}
    await target.api.merge_patch(kinds.PIPELINE, target.namespace, target.name, patch)


async def _withdraw(target: Target, question: Ask) -> None:
    """Remove the annotation; a run that still works on the question ends.

    Gives up silently after MAX_WITHDRAWALS conflicts: an annotation that stays is replaced by the
    next question, and must not hide an answer that has arrived.
    """
    for _ in range(MAX_WITHDRAWALS):
        resource = await target.api.get_pipeline(target.namespace, target.name)
        if resource is None or _parse_question(resource) != question:
            return
        try:
            # Of this version only: a question that somebody else asks in between stays.
            await _annotate(target, None, resource["metadata"]["resourceVersion"])
        except api_errors.Conflict:
            continue
        return


async def _read_answer(target: Target, answered: PipelineStatus) -> dict[str, Any] | Failure:
    """Return the result in the report of the driver's pod, or why there is none."""
    taken_up = answered.observed_ask
    assert taken_up is not None  # that is what was waited for
    if taken_up.failure is not None:
        return taken_up.failure
    # A name returns when a status was lost; only the id says that a report is of this run.
    current = () if answered.current_run is None else (answered.current_run,)
    runs = (*current, *answered.recent_runs)
    ids = [run.run_id for run in runs if run.name == taken_up.run]
    for pod in await target.api.list_driver_pods(target.namespace, target.name):
        metadata = pod["metadata"]
        if not ids or (metadata.get("labels") or {}).get(naming.LABEL_RUN) != taken_up.run:
            continue
        report, _ = reports.read_report(pod, ids[0] or taken_up.run)
        # A run that goes on may have been asked something else since.
        result = {} if report is None or report.result is None else report.result
        answer = fill(RunAnswer, result)
        if "tables" in result and answer["question"] in (None, taken_up.id):
            say_what_is_left_out(metadata["annotations"])
            return {"tables": answer["tables"]}
    lost = f"the run {taken_up.run} has answered, but its pod, which held the answer, was deleted"
    return Failure.of(NodeLost(f"{lost}: ask again"))


def say_what_is_left_out(annotations: dict[str, str]) -> None:
    """Write to stderr what the report does not hold of the answer, because it is too large."""
    text = annotations.get(report_text.ANNOTATION_REPORT)
    problem = report_text.from_annotation(text).problem if text else None
    if problem is not None:
        terminal.complain(problem)
