"""Configure Spark for tests that have few rows."""

from collections.abc import Mapping

UNCOMPILED: Mapping[str, str] = {
    # Compiling and re-planning a query costs far more than running it on a test's few rows; the
    # tests of commands, of the demo and of what is generated run as users do.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
