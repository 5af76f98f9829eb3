"""Errors that nobody foresaw: what is logged of them."""

import logging

import pytest
from pyspark.errors import PythonException

from icdc_api.errors import Bug
from icdc_spark.process.failures import translate_errors

pytestmark = pytest.mark.unit


def test_an_unforeseen_error_is_logged_without_the_row_that_spark_quoted_before_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    def handle() -> None:
        try:
            raise PythonException("ValueError: invalid literal: 'secret-4711'")
        except PythonException:
            raise KeyError("counts")  # noqa: B904 - as a slip in a handler would

    with pytest.raises(Bug, match="KeyError: '…'"), translate_errors("shop.orders"):
        handle()
    assert "shop.orders: unforeseen" in caplog.text
    assert "in handle" in caplog.text
    assert "secret-4711" not in caplog.text
