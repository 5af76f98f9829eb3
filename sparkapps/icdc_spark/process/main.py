"""The program that spark-submit starts, with one argument: the path of a request.

end of the run                         report        exit code
all tables done, or some of them fail  finished      0: the report says how it ended
a request of another version           BadSpec       0
SIGTERM or SIGINT                      finished      0, after the step that is running
whoever started it has ended           stays as is   1, at once (`endWithStdin`)
an unexpected error                    Bug           0
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from pyspark.sql import SparkSession

from icdc_api import __version__
from icdc_api.errors import BadSpec, Bug, IcdcError
from icdc_api.job.log_lines import FORMAT_VARIABLE, JsonFormatter
from icdc_api.job.run_files import QUESTION_VARIABLE, STARTER_VARIABLE, RunRequest
from icdc_api.spec.secrets import pick_authority, read_secret
from icdc_spark.iceberg.jvm import session
from icdc_spark.iceberg.jvm.source_errors import has_jvm_ended
from icdc_spark.iceberg.jvm.table_jobs import TableJobs
from icdc_spark.iceberg.jvm.trust import trust_authority
from icdc_spark.process.failures import build_bug, log_unforeseen, outlive_errors
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_spark.reporting.renewal import Renewal
from icdc_spark.reporting.reporter import Reporter

LOG = logging.getLogger("icdc_spark")


def stop_on_signal(stop: threading.Event) -> None:
    """Set `stop` at SIGTERM and SIGINT: the run ends after the present step."""

    def ask(number: int, _frame: FrameType | None) -> None:
        LOG.info("asked to stop by %s", signal.Signals(number).name)
        stop.set()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)


def end_with_stdin() -> None:
    """End this process as soon as the one that started it has ended.

    The kernel closes a pipe with its process, however that ended; a signal could get lost.
    """

    def watch() -> None:
        # Not through sys.stdin, whose lock a thread may not hold while Python ends.
        while os.read(sys.stdin.fileno(), 1):
            pass
        # Not sys.exit, which would end this thread alone.
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def build_formatter(request: RunRequest | None = None) -> logging.Formatter:
    """Return the format of the log: JSON where the operator says so, else text for a terminal."""
    if os.environ.get(FORMAT_VARIABLE) != "json":
        return logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    if request is None:
        return JsonFormatter()
    # The operator's lines name the run without its epoch, which the id ends with.
    return JsonFormatter(pipeline=request.owner, run=request.run_id.partition(".")[0])


def run(request: RunRequest) -> None:
    """Do what the request asks; the report says how it ended."""
    stop = threading.Event()
    stop_on_signal(stop)
    try:
        spark = session.create_application_session(f"icdc {request.owner}")
    except Bug as error:
        raise _suspect_conf(error, request) from error
    trust_catalogs(spark, request)
    # In a thread of its own: Python runs signal handlers in the main thread only, and not while
    # that is in a call into the JVM.
    with ThreadPoolExecutor(1, "application") as pool:
        path = os.environ.get(QUESTION_VARIABLE)
        application = PipelineRun(request, spark, stop, question_path=path)
        renewal = Renewal(application.reporter, TableJobs(spark).answer)
        ending = pool.submit(application.run)
        await_end(ending, renewal)
    ending.result()
    _end(spark)


def await_end(ending: Future[Any], renewal: Renewal) -> None:
    """Return when the run has ended; its report is renewed until then."""
    while not ending.done():
        # Waits in slices: a signal's handler runs only between two of them.
        wait([ending], timeout=0.2)
        # Raised here, an error would be told of the run, which has its own end.
        with outlive_errors("the renewal of the report"):
            renewal.poll()


def _suspect_conf(error: Bug, request: RunRequest) -> IcdcError:
    """Return the error, with the properties of the pipeline by which Spark may not start."""
    names = sorted(request.parse_pipeline().spec.spark.conf)
    # A JVM that was killed says nothing of them. For a Bug, what was seen of its pod is reported,
    # such as OOMKilled.
    if not names or has_jvm_ended(error.__cause__):
        return error
    # Of most values Spark says by itself that they are wrong, and of which property they are.
    return BadSpec(
        f"{error}; most likely Spark cannot work with a value in spec.spark.conf: check "
        f"{', '.join(names)}"
    )


def trust_catalogs(spark: SparkSession, request: RunRequest) -> None:
    """Have the JVM trust the authorities of all catalogs, before the first of them is opened.

    Iceberg's clients of S3 are shared by catalogs and trust what the JVM did when they were made:
    that of the first table would refuse the store of another. What is wrong with a Secret is left
    to its tables to report.
    """
    spec = request.parse_pipeline().spec
    folder = Path(request.secrets_dir) if request.secrets_dir else None
    secrets = {spec.get_catalog(table).authority_secret for table in spec.tables}
    certificates = set()
    for name in secrets:
        if name is not None:
            with suppress(IcdcError):
                certificates.add(pick_authority(read_secret(folder, name), name))
    for one in sorted(certificates):
        trust_authority(spark, one)


def read_request(path: Path) -> tuple[RunRequest, BadSpec | None]:
    """Return the request, and why this version cannot do what it asks; None where it can.

    Whoever started the run then hears of it, who would else see only that a process has ended.
    BadSpec where nobody can be told.
    """
    content = path.read_bytes()
    try:
        request = RunRequest.parse(content, path)
    except BadSpec as error:
        address = RunRequest.parse_address(content)
        if address is None:
            raise
        return address, _name_versions(error)
    try:
        request.parse_pipeline()
    except BadSpec as error:
        return request, _name_versions(error)
    return request, None


def _name_versions(error: BadSpec) -> BadSpec:
    """Return the error with the two versions that do not fit, where both are known."""
    starter = os.environ.get(STARTER_VARIABLE)
    if starter is None:
        return error
    versions = f"The operator is version {starter}, the image of the run version {__version__}"
    if starter == __version__:
        versions = f"Operator and image of the run are different builds of version {starter}"
    return BadSpec(
        f"{error}. {versions}: an older image does not know what a newer operator or pipeline asks "
        "for. Set spec.spark.image to an image of the operator's version, or leave it out"
    )


def _end(spark: SparkSession) -> None:
    """Stop Spark. The report is written: what fails now does not change it."""
    try:
        spark.stop()
    except Exception:
        # Such as of a JVM that has ended before; the report does not depend on it.
        LOG.warning("Spark did not stop in order", exc_info=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the request in the file that the first argument names."""
    handler = logging.StreamHandler(sys.stderr)
    # Without the request's fields first: it may be the request that cannot be read.
    handler.setFormatter(build_formatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    (path,) = sys.argv[1:] if arguments is None else arguments
    request, refusal = read_request(Path(path))
    handler.setFormatter(build_formatter(request))
    if request.end_with_stdin:
        end_with_stdin()
    try:
        if refusal is not None:
            raise refusal
        run(request)
    except IcdcError as error:
        Reporter(request, ()).finish(outcome=error)
    except Exception as error:  # noqa: BLE001 - the root of a process
        log_unforeseen("the run ended unexpectedly", error)
        Reporter(request, ()).finish(outcome=build_bug(error))
    return 0


def leave(code: int) -> NoReturn:
    """End this process at once; all that it had to say is written.

    Python's usual end waits for threads of libraries, and stops others wherever they are, also
    where they hold a lock that it needs itself. A driver whose JVM had been killed once stayed for
    ever after its report was written.
    """
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    leave(main())
