"""Asks the application one question (`plan`, `verify`, `repair`) and waits for its answer.

A run like any other to the application, with an epoch of its own; but nothing decides about it: it
is not repeated, recorded or resumed, since a person waits for it and sees at once how it ended.

    1  request with epoch now, in a temporary directory
    2  the application answers in its report, or fails
    3  fenced by an epoch of the future: once more, one above it
    4  answered, or fenced: all is removed; failed: the log stays, and the failure names it

Needs no state directory and keeps nothing: progress is read from the state document. What an
answer means is the caller's business.
"""

import shutil
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from icdc_api.base import MAX_COUNT
from icdc_api.errors import Bug
from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunReport, RunRequest
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import Failure
from icdc_cli.local.application import Application
from icdc_cli.local.resource import LocalPipeline
from icdc_cli.local.runs import LocalRuns
from icdc_operator.core.asked import resyncs
from icdc_operator.core.observed import RunSeen

POLL_SECONDS = 0.1
"""Between two polls of the run: half of what the runner takes, since a person waits for the end."""


def ask(
    local: LocalPipeline,
    mode: RunMode,
    *,
    application: Application,
    secrets_dir: Path | None,
    **details: Any,
) -> dict[str, Any] | Failure:
    """Return the application's result, or why there is none, with the path of its log.

    `details` are further fields of the request.
    """

    def ask_with(epoch: int) -> dict[str, Any] | Failure:
        return _ask(local, mode, epoch, application=application, secrets_dir=secrets_dir, **details)

    answer = ask_with(_compute_epoch())
    rival = answer.rival if isinstance(answer, Failure) else None
    if rival is None or not _compute_epoch() < rival.epoch < MAX_COUNT:
        return answer
    # Its epoch has not come yet, so a clock was wrong: that must not lock the table out.
    return ask_with(1 + rival.epoch)


def _compute_epoch() -> int:
    """Return the epoch of a run that begins now: the time in milliseconds, as in the operator.

    So it is above the epoch of every run before it, one in a cluster included, of which nothing is
    known here, unless a clock is wrong.
    """
    return int(datetime.now(UTC).timestamp() * 1000)


def _ask(
    local: LocalPipeline,
    mode: RunMode,
    epoch: int,
    *,
    application: Application,
    secrets_dir: Path | None,
    **details: Any,
) -> dict[str, Any] | Failure:
    root = Path(tempfile.mkdtemp(prefix="icdc-"))
    runs = LocalRuns(root, application)
    keep_log = True
    try:
        name = f"{local.pipeline.metadata.name}-{mode.value}"
        request = RunRequest(
            run_id=f"{name}.{epoch}",
            mode=mode,
            # By the spec alone: without a status nothing is known of nonces acted on before.
            reexport=resyncs.build_reexport(PipelineStatus(), local.pipeline.spec),
            pipeline=local.request,
            owner=local.pipeline.owner,
            epoch=epoch,
            report_path=str(runs.build_report_path(name)),
            end_with_stdin=True,
            secrets_dir=None if secrets_dir is None else str(secrets_dir),
            **details,
        )
        runs.create(name, request, local.pipeline.spec.spark, short=mode.is_short)
        answer = _get_answer(_wait(runs))
        # A fenced run has done nothing that its log could tell.
        if isinstance(answer, Failure) and answer.rival is None:
            return _name_log(answer, runs.build_log_path(name))
        keep_log = False
        return answer
    finally:
        # First: what still runs writes to the directory that is about to be removed.
        runs.close()
        if not keep_log:
            shutil.rmtree(root, ignore_errors=True)
        # The log stays for reading; the request may hold credentials.
        for request_file in root.glob("*/request.json"):
            request_file.unlink()


def _name_log(failure: Failure, log: Path) -> Failure:
    """Return a failure whose message names the log; what the runner made of an exit code does."""
    if str(log) in failure.message:
        return failure
    return failure.model_copy(update={"message": f"{failure.message} (the log is {log})"})


def _wait(runs: LocalRuns) -> RunSeen:
    while True:
        (seen,) = runs.observe()
        # Not before its last worker has ended: `repair` writes, and the caller may read the index
        # at once.
        if not seen.live:
            return seen
        time.sleep(POLL_SECONDS)


def _get_answer(seen: RunSeen) -> dict[str, Any] | Failure:
    report: RunReport | None = seen.report
    if report is not None and report.outcome is not None:
        return report.outcome
    if seen.failure is not None:
        return seen.failure
    if report is None or report.result is None:
        return Failure.of(Bug("the application succeeded, but gave no answer"))
    return report.result
