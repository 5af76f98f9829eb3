"""Collect what a foreign error says of itself: class names, texts, and its deepest cause.

A failure in an executor reaches the driver partly as text. So class names are taken both from the
chain of Java causes and from the messages. This module must not know what the names mean.

Example: reading a file that was deleted raises a `Py4JJavaError`, whose Java cause is

    SparkException: Job aborted: ... java.io.FileNotFoundException: File s3://lake/a does not exist
    caused by IOException: reading s3://lake/a

    classes  SparkException, FileNotFoundException (from the message), IOException, and the
             superclasses of the causes below Throwable
    detail   java.io.IOException: reading s3://lake/a
    text     the texts of the Python error and of both causes
"""

import re
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from icdc_api import redaction

_CLASS_NAME = re.compile(r"\b(?:[a-z_][\w]*\.)+[A-Z][\w$]*(?:Exception|Error)\b")
_PYTHON_ERROR = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception): .*$", re.MULTILINE)
_MAX_CAUSES = 32
"""Causes that are followed: a chain may be a circle."""
_MAX_DETAIL = 400
"""Characters of a line that a message shows; some drivers put whole pages into one."""


class ErrorSigns(NamedTuple):
    """What an error says of itself."""

    classes: frozenset[str]
    """Simple names of all Java classes and Python errors that it names."""
    detail: str
    """The first line of its deepest cause."""
    text: str
    """The texts of all causes, one after the other."""


def read_signs(error: Exception) -> ErrorSigns:
    """Follow the Java causes of an error; without any, its own text is all there is."""
    names: set[str] = set()
    details = [f"{type(error).__name__}: {find_error_line(str(error))}"]
    texts = [str(error)]
    cause = _get_java_cause(error)
    for _ in range(_MAX_CAUSES):
        if cause is None:
            break
        texts.append(str(cause.toString()))
        details.append(find_error_line(texts[-1]))
        names.update(_list_classes(cause))
        names.update(_find_class_names(str(cause.getMessage() or "")))
        cause = cause.getCause()
    if len(details) == 1:
        names.update(_find_class_names(str(error)))
    return ErrorSigns(frozenset(names), details[-1], "\n".join(texts))


def find_error_line(text: str) -> str:
    """Return the line that says what happened; of a Python traceback that is the last one."""
    raised = _PYTHON_ERROR.findall(text) if "Traceback (most recent call last)" in text else []
    line = raised[-1] if raised else text.strip().split("\n", 1)[0]
    # Paths such as region=EU/a.parquet hold values of rows.
    return redaction.hide_partition_values(line)[:_MAX_DETAIL]


def _get_java_cause(error: Exception) -> Any:
    """Return the Java exception behind a Python one, or None."""
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    if isinstance(error, CapturedException):
        # pyspark turns well-known Java exceptions into its own and keeps the original here.
        return error._origin
    return None


def _list_classes(throwable: Any) -> set[str]:
    """Return the simple names of the class of a Java throwable and of its superclasses."""
    names: set[str] = set()
    java_class = throwable.getClass()
    while java_class is not None and str(java_class.getName()) != "java.lang.Throwable":
        names.add(str(java_class.getSimpleName()))
        java_class = java_class.getSuperclass()
    return names


def _find_class_names(text: str) -> set[str]:
    """Return the simple names of the exceptions that a text names."""
    raised = {line.split(":", 1)[0] for line in _PYTHON_ERROR.findall(text)}
    names = {*_CLASS_NAME.findall(text), *raised}
    # Nested classes are named Outer$Inner.
    return {re.split(r"[.$]", name)[-1] for name in names}
