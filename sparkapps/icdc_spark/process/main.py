"""The program that spark-submit starts: one argument, the path of a request.

Its exit code is 0 whenever the report says how the run ended. It is told to stop by SIGTERM, and
then finishes the step it is at; it stops at once when whoever started it is gone.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import FrameType

from pyspark.sql import SparkSession

from icdc_api.errors import IcdcError
from icdc_api.job import RunRequest
from icdc_spark.iceberg.jvm import session
from icdc_spark.process.application import Application
from icdc_spark.process.following import crashed, log_unforeseen
from icdc_spark.reporting.reporter import Reporter

LOG = logging.getLogger("icdc_spark")


def stop_on_signal(stop: threading.Event) -> None:
    """SIGTERM and SIGINT ask for an end after the present step."""

    def ask(number: int, _frame: FrameType | None) -> None:
        LOG.info("asked to stop by %s", signal.Signals(number).name)
        stop.set()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)


def end_with_stdin() -> None:
    """Ends this process as soon as whoever started it is gone.

    The kernel closes a pipe with its process, however that ended; a signal could get lost.
    """

    def watch() -> None:
        # Not through sys.stdin, whose lock a thread may not hold while Python ends.
        while os.read(sys.stdin.fileno(), 1):
            pass
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def run(request: RunRequest) -> None:
    """Does what the request asks; the report says how it ended."""
    stop = threading.Event()
    stop_on_signal(stop)
    spark = session.create_application_session(f"icdc {request.owner}")
    with ThreadPoolExecutor(1, "application") as pool:
        answer = pool.submit(Application(request, spark, stop).run)
        while not answer.done():
            # Waits in slices: a signal's handler runs only between two of them.
            wait([answer], timeout=0.2)
    answer.result()
    _end(spark)


def _end(spark: SparkSession) -> None:
    """The report is written: what fails now, such as a JVM that is gone, does not change it."""
    try:
        spark.stop()
    except Exception:
        LOG.warning("Spark did not stop in order", exc_info=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the request in the file named by the first argument."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    (path,) = sys.argv[1:] if arguments is None else arguments
    request = RunRequest.read(Path(path))
    if request.end_with_stdin:
        end_with_stdin()
    try:
        run(request)
    except IcdcError as error:
        Reporter(request, ()).finish(outcome=error)
    except Exception as error:  # noqa: BLE001 - the outermost frame
        log_unforeseen("the run ended unexpectedly", error)
        Reporter(request, ()).finish(outcome=crashed(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
