"""A function of Spark that takes a millisecond and counts its calls: a slow expression of `fields`.

No function of Spark does both, so a class of Java is compiled in the JVM by the compiler that Spark
has for its own queries, into a folder that is on the class path since the start. Tasks run in the
same JVM, so the count is of all of them.
"""

from pathlib import Path
from typing import Any, cast

from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from icdc_spark.iceberg.jvm.bridge import Bridge

NAME = "slow"
MILLISECONDS = 1
"""What one call takes."""

_CLASS = "Slow"
_SOURCE = f"""
public class {_CLASS} implements org.apache.spark.sql.api.java.UDF1 {{
  static final java.util.concurrent.atomic.LongAdder calls =
      new java.util.concurrent.atomic.LongAdder();
  public static long countCalls() {{ return calls.sum(); }}
  public Object call(Object text) throws Exception {{
    calls.increment();
    Thread.sleep({MILLISECONDS}L);
    return text;
  }}
}}
"""


class SlowFunction:
    """The function `slow(text)`, which returns its argument."""

    def __init__(self, spark: SparkSession, classes: Path) -> None:
        """Compile and register it; `classes` is a folder on the class path of the JVM."""
        bridge = Bridge(spark)
        compiler = bridge.create_object("org.codehaus.janino.SimpleCompiler")
        threads = bridge.get_statics("java.lang.Thread")
        compiler.setParentClassLoader(threads.currentThread().getContextClassLoader())
        compiler.cook(_SOURCE)
        code = cast(Any, compiler.getBytecodes()).get(_CLASS)
        (classes / f"{_CLASS}.class").write_bytes(bytes(code))
        text = bridge.java_session.parseDataType(T.StringType().json())
        # As an object: the compiler writes no type parameters, by which Spark knows a class.
        bridge.java_session.udf().register(NAME, bridge.create_object(_CLASS), text)
        self._statics = bridge.get_statics(_CLASS)

    def count_calls(self) -> int:
        """Return how often it was called since the start of the JVM."""
        return int(self._statics.countCalls())
