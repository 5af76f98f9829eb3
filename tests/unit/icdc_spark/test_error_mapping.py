"""Foreign errors become errors of the project: Spark's losses, rows that fail, and unknown ones.

The texts are as Spark prints them. Messages must not repeat values of rows.
"""

import pytest
from pyspark.errors import PySparkException

from icdc_api.errors import (
    Bug,
    DataFileMissing,
    DiskFull,
    DriverLost,
    FileUnreadable,
    FilterInvalid,
    IcdcError,
    NodeLost,
    NoProgress,
    OutOfMemory,
    SourceUnavailable,
    TargetUnavailable,
    Throttled,
    Unauthorized,
)
from icdc_spark.iceberg.jvm import engine_errors
from icdc_spark.iceberg.jvm.source_errors import translate_error

pytestmark = pytest.mark.unit

STAGE = (
    "Job aborted due to stage failure: Task 3 in stage 4.0 failed 4 times, most recent failure: "
)
LOST = f"{STAGE}Lost task 3.3 in stage 4.0 (TID 9) (10.1.2.3 executor 5): "
BLOCKS = "/var/data/spark-0b1c/blockmgr-5a2e6c1f-9d3b-4c55-8f0e-1a2b3c4d5e6f"

LOSSES: list[tuple[str, type[IcdcError]]] = [
    (
        f"{LOST}ExecutorLostFailure (executor 5 exited caused by one of the running tasks) "
        "Reason: \nThe executor with id 5 exited with exit code 137(SIGKILL, possible container "
        "OOM).\nDriver stacktrace:",
        OutOfMemory,
    ),
    (
        f"{LOST}ExecutorLostFailure (executor 5 exited caused by one of the running tasks) "
        "Reason: Command exited with code 52",
        OutOfMemory,
    ),
    (f"{LOST}java.lang.OutOfMemoryError: Java heap space\n\tat x", OutOfMemory),
    (f"{LOST}java.lang.OutOfMemoryError: unable to create native thread", OutOfMemory),
    (
        f"{LOST}org.apache.spark.memory.SparkOutOfMemoryError: [UNABLE_TO_ACQUIRE_MEMORY] Unable "
        "to acquire 65536 bytes of memory, got 0. SQLSTATE: 53200",
        OutOfMemory,
    ),
    (
        "org.apache.spark.SparkException: Not enough memory to build and broadcast the table to "
        "all worker nodes.",
        OutOfMemory,
    ),
    (
        "Job aborted due to stage failure: Total size of serialized results of 4 tasks (1100.0 "
        "MiB) is bigger than spark.driver.maxResultSize (1024.0 MiB)",
        OutOfMemory,
    ),
    (
        f"{STAGE}org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n"
        "Caused by: java.io.EOFException",
        OutOfMemory,
    ),
    (f"[SPARK_JOB_CANCELLED] Job 5 {engine_errors.CANCELLED} SQLSTATE: XXKDA", NoProgress),
    (f"{LOST}java.io.IOException: No space left on device\n\tat sun.nio.ch", DiskFull),
    (f"{LOST}java.io.IOException: Disk quota exceeded", DiskFull),
    (f"{LOST}java.io.IOException: Read-only file system", NodeLost),
    (
        f"{LOST}java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory "
        "or process/resource limits reached",
        OutOfMemory,
    ),
    (
        f"{STAGE}org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        "BlockingIOError: [Errno 11] Resource temporarily unavailable\n",
        OutOfMemory,
    ),
    (
        f"{STAGE}org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        "OSError: [Errno 28] No space left on device\n",
        DiskFull,
    ),
    (
        f"{LOST}ExecutorLostFailure (executor 5 exited unrelated to the running tasks) Reason: The "
        "executor with id 5 was deleted by a user or the framework.",
        NodeLost,
    ),
    (
        f"{LOST}ExecutorLostFailure (executor 5 exited caused by one of the running tasks) Reason: "
        "Executor heartbeat timed out after 150000 ms",
        NodeLost,
    ),
    (
        "Job aborted due to stage failure: ShuffleMapStage 7 has failed the maximum allowable "
        "number of times: 4. Most recent failure reason: org.apache.spark.shuffle."
        "FetchFailedException: Failed to connect to /10.0.0.3:7079\n"
        "Caused by: java.net.ConnectException: Connection refused",
        NodeLost,
    ),
    (
        "Job aborted due to stage failure: ResultStage 7 has failed the maximum allowable number "
        "of times: 4. Most recent failure reason:\norg.apache.spark.shuffle."
        "MetadataFetchFailedException: Missing an output location for shuffle 3 partition 1",
        NodeLost,
    ),
    (
        f"{LOST}java.io.FileNotFoundException: {BLOCKS}/0c/shuffle_3_1_0.data (No such file or "
        "directory)",
        NodeLost,
    ),
    (f"{LOST}java.nio.file.NoSuchFileException: {BLOCKS}/11/temp_local_9f2b", NodeLost),
    (
        f"{LOST}java.util.concurrent.RejectedExecutionException: Task org.apache.spark.executor."
        "Executor$TaskRunner@5f1a7c rejected from java.util.concurrent.ThreadPoolExecutor@3b1e "
        "[Shutting down, pool size = 1, active threads = 1]",
        NodeLost,
    ),
    (
        "[BROADCAST] Could not execute broadcast in 300 secs. java.util.concurrent."
        "TimeoutException: Futures timed out after [300 seconds]",
        NodeLost,
    ),
    (f"{LOST}org.apache.spark.SparkException: Failed to get broadcast_12_piece0", NodeLost),
    (
        f"{LOST}org.apache.spark.SparkException: [CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint "
        "block rdd_12_3 not found!\nEither the executor that originally checkpointed this "
        "partition is no longer alive, or the original RDD is unpersisted.",
        NodeLost,
    ),
    (
        "Job aborted because of SparkContext shutdown: Max number of executor failures (6) reached",
        DriverLost,
    ),
    ("Job 3 cancelled because SparkContext was shut down", DriverLost),
    ("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.", DriverLost),
    # What stays what it was: a table's own file, the catalog's own disk, what nobody knows.
    (
        f"{LOST}java.io.FileNotFoundException: File s3://lake/spark/orders/data/0.parquet does "
        "not exist",
        DataFileMissing,
    ),
    (
        "org.apache.iceberg.exceptions.RESTException: Unable to process: No space left on device",
        SourceUnavailable,
    ),
    (f"{LOST}java.lang.IllegalStateException: something else", Bug),
]


@pytest.mark.parametrize(("text", "expected"), LOSSES)
def test_a_loss_of_spark_has_its_own_error_class(text: str, expected: type[IcdcError]) -> None:
    error = translate_error("shop.orders", PySparkException(text))
    assert type(error) is expected
    assert error.retryable is (expected not in (DataFileMissing, Bug))
    assert str(error).startswith("shop.orders: ")


def test_a_cause_below_others_counts() -> None:
    chain = (
        "org.apache.spark.SparkException: Job aborted.",
        "org.apache.spark.SparkException: Exception thrown in awaitResult: ",
        "java.io.IOException: No space left on device",
    )
    error = engine_errors.find_meaning({"SparkException", "IOException"}, "\n".join(chain))
    assert error is not None
    assert error[0] is DiskFull


SCRATCH = "/var/data/spark-local-dir-1/blockmgr-0aa1b2c3-1111-2222-3333-444455556666"
OWN_SCRATCH = SCRATCH.replace(
    "/var/data/spark-local-dir-1", "/var/lib/icdc/local-1/icdc-0bb1b2c3-1111-2222-3333-444455556666"
)
ON_3 = "Lost task 0.3 in stage 1.0 (TID 7) (10.0.0.7 executor 3): "
DISKS = {
    f"{ON_3}java.io.FileNotFoundException: {SCRATCH}/0c/temp_shuffle_9 (No space left on device)": (
        "the disk of /var/data/spark-local-dir-1 on executor 3 (10.0.0.7) is full"
    ),
    "Lost task 0.3 in stage 1.0 (TID 7) (10.0.0.5 executor driver): java.io.IOException: No space "
    "left on device": "a local disk of the driver (10.0.0.5) is full",
    f"{ON_3}java.io.IOException: No space left on device: {OWN_SCRATCH}/0c/temp_shuffle_9": (
        "the disk of /var/lib/icdc/local-1 on executor 3 (10.0.0.7) is full"
    ),
    f"{ON_3}java.io.IOException: Read-only file system": (
        "a local disk of executor 3 (10.0.0.7) is read-only"
    ),
    "OSError: [Errno 28] No space left on device: '/var/data/spark-local-dir-2/tmp9f'": (
        "the disk of /var/data/spark-local-dir-2 is full"
    ),
    "java.io.IOException: No space left on device": "a local disk of driver or executors is full",
}


@pytest.mark.parametrize(("text", "words"), DISKS.items())
def test_a_disk_is_named_as_far_as_the_error_names_it(text: str, words: str) -> None:
    assert words in str(translate_error("shop.orders", PySparkException(text)))


OF_ROWS: list[tuple[str, type[IcdcError], str]] = [
    (
        "[CAST_INVALID_INPUT] The value 'NL-secret-4711' of the type \"STRING\" cannot be cast to "
        '"INT" because it is malformed. SQLSTATE: 22018',
        FilterInvalid,
        "[CAST_INVALID_INPUT]",
    ),
    (
        "[INVALID_ARRAY_INDEX] The index 4711 is out of bounds. The array has 3 elements. "
        "SQLSTATE: 22003",
        FilterInvalid,
        "[INVALID_ARRAY_INDEX]",
    ),
    (
        "[DIVIDE_BY_ZERO] Division by zero: 4711. Use `try_divide`. SQLSTATE: 22012",
        FilterInvalid,
        "[DIVIDE_BY_ZERO]",
    ),
    ("[USER_RAISED_EXCEPTION] 4711 SQLSTATE: P0001", FilterInvalid, "[USER_RAISED_EXCEPTION]"),
    (
        "[DUPLICATED_MAP_KEY] Duplicate map key 4711 was found, please check the input data. "
        "SQLSTATE: 23505",
        FileUnreadable,
        "[DUPLICATED_MAP_KEY]",
    ),
]


@pytest.mark.parametrize(("text", "expected", "code"), OF_ROWS)
def test_a_row_that_an_expression_fails_on_is_not_shown(
    text: str, expected: type[IcdcError], code: str
) -> None:
    error = translate_error("shop.orders", PySparkException(f"{LOST}{text}"))
    assert type(error) is expected
    assert code in str(error)
    assert "4711" not in str(error)


IN_PYTHON = (
    f"{STAGE}org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    '  File "/opt/spark/python/pyspark/worker.py", line 2068, in main\n'
    '  File "/opt/app/icdc_spark/matching/digests.py", line 41, in digest_lines\n'
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"{IN_PYTHON}ValueError: invalid literal: 'secret'\n", "ValueError at digests.py:41"),
        (f"{IN_PYTHON}pyarrow.lib.ArrowInvalid: 'secret'\n", "PythonException at digests.py:41"),
        (f"{LOST}java.lang.NumberFormatException: For input: secret", "NumberFormatException"),
    ],
)
def test_what_a_task_says_of_a_row_is_not_repeated(text: str, shown: str) -> None:
    error = translate_error("shop.orders", PySparkException(text))
    assert type(error) is Bug
    assert error.message == (
        f"shop.orders: {shown} in a task; its message may quote a row and is not repeated here, "
        "see the logs of driver and executors"
    )


@pytest.mark.parametrize("kind", [TargetUnavailable, Throttled, Unauthorized])
def test_an_error_of_ours_comes_out_of_a_task_as_it_is(kind: type[IcdcError]) -> None:
    text = f"{IN_PYTHON}icdc_api.errors.{kind.__name__}: OpenSearch is away.\n\n\tat x.Y"
    error = translate_error("shop.orders", PySparkException(text))
    assert (type(error), error.message) == (kind, "OpenSearch is away.")


@pytest.mark.parametrize(
    "text",
    [
        f"{LOST}software.amazon.awssdk.core.exception.SdkClientException: Unable to execute HTTP "
        "request: PKIX path building failed: sun.security.provider.certpath."
        "SunCertPathBuilderException: unable to find valid certification path to requested target",
        f"{STAGE}org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        "OSError: When reading information for key 'x' in bucket 'lake': AWS Error "
        "NETWORK_CONNECTION during HeadObject operation: curlCode: 60, SSL peer certificate or SSH "
        "remote key was not OK",
    ],
)
def test_a_certificate_of_an_unknown_authority_names_the_field_for_it(text: str) -> None:
    error = translate_error("shop.orders", PySparkException(text))
    assert type(error) is Unauthorized
    assert "catalog.tls.caFrom names a Secret" in error.message


def test_what_the_driver_says_is_repeated() -> None:
    error = translate_error("shop.orders", PySparkException("no such thing"))
    assert error.message == "shop.orders: PySparkException: no such thing"


def test_a_limit_of_threads_asks_for_no_memory() -> None:
    text = f"{LOST}java.lang.OutOfMemoryError: unable to create native thread: possibly out of"
    meaning = engine_errors.find_meaning({"OutOfMemoryError"}, text)
    assert meaning is not None
    assert "Raise the PID limit" in meaning[1]
