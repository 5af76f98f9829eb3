"""`icdc plan NAME` and `icdc verify NAME`: a question to the operator, and the wait for its answer.

The question is an annotation on the pipeline; a run in the cluster answers it, under the account
of the driver. So nothing of what a pipeline says (Spark properties, jars, classes, Secrets) comes
to this host: here is neither Spark nor a JDK needed, and no right but to read and patch pipelines
and to read pods. The answer is in the report that the pod of the run's driver carries.
"""

import argparse
import asyncio
import secrets
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from icdc_api import loading, naming
from icdc_api.errors import BadSpec, NodeLost, StartTimeout
from icdc_api.runs import Failure
from icdc_api.status import PipelineStatus
from icdc_api.triggers import Ask, AskedKind
from icdc_cli.cluster import next_step, session, status
from icdc_cli.cluster.session import Target
from icdc_operator.cluster.kube import errors, kinds
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.runs import reports

WAIT_SECONDS = 600
"""How long an answer is waited for unless --wait says otherwise."""

POLL_SECONDS = 1.0
TAKEN_UP_SECONDS = 60.0
"""How long an operator may take to notice a question while nothing else is at work: more than a
new leader needs."""


@dataclass(frozen=True)
class Told:
    """What came of a question."""

    next_step: str
    """What the operator does next by itself."""
    answer: dict[str, Any] | Failure


def add_wait(parser: argparse.ArgumentParser) -> None:
    """`--wait`."""
    parser.add_argument(
        "--wait",
        type=_seconds,
        default=WAIT_SECONDS,
        metavar="SECONDS",
        help="how long to wait for the answer from a cluster, which may have to wait itself for "
        f"the end of the run that is at work (default: {WAIT_SECONDS})",
    )


def _seconds(text: str) -> int:
    seconds = int(text)
    if seconds < 1:
        raise argparse.ArgumentTypeError("it is 1 or more")
    return seconds


def ask(arguments: argparse.Namespace, mode: AskedKind) -> Told:
    """Asks the pipeline that the arguments name, and waits for the answer.

    Raises BadSpec for what the cluster refuses or does not have, StartTimeout where no operator
    answers in time.
    """

    async def work(target: Target, arguments: argparse.Namespace) -> Told:
        return await _ask(target, mode, seconds=arguments.wait)

    return session.answered(work, arguments)


async def _ask(target: Target, mode: AskedKind, *, seconds: float) -> Told:
    resource = await target.pipeline()
    step = _checked(target, resource)
    # The right to read the answer is needed in the end; without it nothing is asked.
    await target.api.list_driver_pods(target.namespace, target.name)
    question = Ask(id=secrets.token_hex(8), mode=mode)
    await _annotate(target, question.to_annotation())
    try:
        known = await _answered(target, question, seconds)
    finally:
        await _withdraw(target, question)
    return Told(step, await _answer(target, known))


def _checked(target: Target, resource: Resource) -> str:
    """What the operator does next by itself; BadSpec for a pipeline that can answer nothing."""
    document = {
        "apiVersion": resource.get("apiVersion"),
        "kind": resource.get("kind"),
        # Kubernetes may give metadata fields that we have never heard of.
        "metadata": {"name": target.name, "namespace": target.namespace},
        "spec": resource.get("spec"),
    }
    pipeline = loading.parse_pipeline(document, source=f"{naming.SINGULAR}/{target.name}")
    if resource["metadata"].get("deletionTimestamp"):
        raise BadSpec(f"{target.name} is being deleted and answers nothing any more")
    known = status.parsed(resource)
    return next_step.next_step(resource, known, pipeline.spec, now=datetime.now(UTC))


async def _answered(target: Target, question: Ask, seconds: float) -> PipelineStatus:
    """The status, once the question has its answer in it."""
    loop = asyncio.get_running_loop()
    asked, told = loop.time(), ""
    while True:
        resource = await target.pipeline()
        known = status.parsed(resource)
        taken_up = known.observed_ask
        if taken_up is not None and taken_up.id == question.id and taken_up.finished:
            return known
        if _question(resource) != question:
            raise BadSpec(f"somebody else has asked {target.name} something meanwhile: ask again")
        waited = loop.time() - asked
        waits_for = _waits_for(known, question)
        if waited >= seconds or (not waits_for and waited >= TAKEN_UP_SECONDS):
            raise StartTimeout(_no_answer(target, waits_for, waited))
        if waits_for != told:
            sys.stderr.write(f"icdc: {waits_for}\n")
            told = waits_for
        await asyncio.sleep(min(POLL_SECONDS, max(0.0, seconds - waited)))


def _waits_for(known: PipelineStatus, question: Ask) -> str:
    """What keeps the answer, as far as the status tells; empty where it tells nothing."""
    run = known.current_run
    if run is None:
        return ""
    if run.ask == question.id:
        return f"the run {run.name} answers ({run.state.value})"
    return f"the run {run.name} is at work and has to end first"


def _no_answer(target: Target, waits_for: str, waited: float) -> str:
    lead = f"no answer within {waited:.0f} s"
    if waits_for:
        return (
            f"{lead}: {waits_for}; ask again with a higher --wait, see icdc logs {target.name}, or "
            f"end the run by icdc pause {target.name}, as a paused pipeline answers too"
        )
    return (
        f"{lead}: no operator has taken the question up; the platform engineer must see whether "
        f"one of this version runs that watches the namespace {target.namespace}"
    )


def _question(resource: Resource) -> Ask | None:
    annotations = resource["metadata"].get("annotations") or {}
    return Ask.of_annotation(annotations.get(naming.ANNOTATION_ASK))


async def _annotate(target: Target, text: str | None, version: str | None = None) -> None:
    metadata: dict[str, Any] = {"annotations": {naming.ANNOTATION_ASK: text}}
    if version is not None:
        metadata["resourceVersion"] = version
    patch = {"metadata": metadata}
    await target.api.merge_patch(kinds.PIPELINE, target.namespace, target.name, patch)


async def _withdraw(target: Target, question: Ask) -> None:
    """Takes the annotation away; a run that is still at work on it ends."""
    for _ in range(5):
        resource = await target.api.get_pipeline(target.namespace, target.name)
        if resource is None or _question(resource) != question:
            return
        try:
            await _annotate(target, None, resource["metadata"]["resourceVersion"])
        except errors.Conflict:
            continue
        return


async def _answer(target: Target, known: PipelineStatus) -> dict[str, Any] | Failure:
    taken_up = known.observed_ask
    assert taken_up is not None  # that is what was waited for
    if taken_up.failure is not None:
        return taken_up.failure
    ids = [run.run_id for run in known.recent_runs if run.name == taken_up.run]
    for pod in await target.api.list_driver_pods(target.namespace, target.name):
        if ids and (pod["metadata"].get("labels") or {}).get(naming.LABEL_RUN) == taken_up.run:
            report, _ = reports.read_report(pod, ids[0] or taken_up.run)
            if report is not None and report.result is not None:
                return report.result
    gone = f"the run {taken_up.run} has answered, but its pod, which holds the answer, is gone"
    return Failure.of(NodeLost(f"{gone}: ask again"))
