"""Calls into the JVM that would be slow or impossible as plain py4j calls.

A py4j call costs a tenth of a millisecond, so a loop over ten thousand files costs seconds. What is
asked of every element of a Java list is asked here in bulk: a Java method becomes a function
object inside the JVM, and only one joined string crosses the border.
"""

from collections.abc import Sequence
from typing import Any, cast

from py4j.java_gateway import JavaMember
from pyspark.sql import SparkSession

from icdc_api.errors import Bug

_SEPARATOR = "\x01"
_GUAVA = "org.apache.iceberg.relocated.com.google.common."
_FUNCTION = _GUAVA + "base.Function"


class Bridge:
    """Access to one session's JVM. Cheap to make; holds no state of its own."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self.jvm: Any = cast(Any, session._jvm)
        self.java_session: Any = session._jsparkSession
        self._gateway: Any = session.sparkContext._gateway
        # Spark looks up catalogs in the configuration of the thread's active session, whatever
        # session it is handed; and each table has a session and a thread of its own.
        self.jvm.org.apache.spark.sql.SparkSession.setActiveSession(self.java_session)

    @property
    def iceberg(self) -> Any:
        """The Java package `org.apache.iceberg`."""
        return self.jvm.org.apache.iceberg

    @property
    def lists(self) -> Any:
        """Guava's `Lists`, as relocated into the Iceberg jar."""
        return self.jvm.org.apache.iceberg.relocated.com.google.common.collect.Lists

    def static(self, class_name: str, method: str) -> Any:
        """A static method that an instance method of the same name hides from py4j."""
        return JavaMember(method, None, f"z:{class_name}", self._gateway._gateway_client)

    def strings(self, values: Sequence[str]) -> Any:
        """A Java array of strings."""
        array = self._gateway.new_array(self.jvm.java.lang.String, len(values))
        for position, value in enumerate(values):
            array[position] = value
        return array

    def drain(self, closeable: Any) -> Any:
        """A Java list of what a closeable iterable holds; closes it."""
        try:
            return self.lists.newArrayList(closeable)
        finally:
            closeable.close()

    def flatten(self, java_list: Any) -> Any:
        """One Java list out of a Java list of lists."""
        iterables = self.jvm.org.apache.iceberg.relocated.com.google.common.collect.Iterables
        return self.lists.newArrayList(iterables.concat(java_list))

    def map(self, java_list: Any, class_name: str, method: str) -> Any:
        """A Java list of what a method without arguments answers for each element."""
        found = self._class(class_name).getMethod(method, self._classes())
        return self.lists.transform(java_list, self._function(self._lookup().unreflect(found)))

    def texts(self, java_list: Any) -> list[str]:
        """`String.valueOf` of each element, `"null"` for null."""
        count = int(java_list.size())
        if count == 0:
            return []
        value_of = self._class("java.lang.String").getMethod(
            "valueOf", self._classes("java.lang.Object")
        )
        as_text = self.lists.transform(
            java_list, self._function(self._lookup().unreflect(value_of))
        )
        joined: str = self.jvm.java.lang.String.join(_SEPARATOR, as_text)
        parts = joined.split(_SEPARATOR)
        if len(parts) != count:
            raise Bug(
                f"{count} Java objects gave {len(parts)} texts: one holds a control character"
            )
        return parts

    def pick(self, java_list: Any, positions: Sequence[int]) -> Any:
        """A new Java list of the elements at these positions, in this order."""
        if not positions:
            return self.jvm.java.util.ArrayList()
        parse = self._class("java.lang.Integer").getMethod(
            "valueOf", self._classes("java.lang.String")
        )
        get = self._class("java.util.List").getMethod(
            "get", self._int_class(self.jvm.java.lang.Integer.TYPE)
        )
        numbers = self.jvm.java.util.regex.Pattern.compile(",").splitAsStream(
            ",".join(map(str, positions))
        )
        texts = numbers.collect(self.jvm.java.util.stream.Collectors.toList())
        lookup = self._lookup()
        indices = self.lists.transform(texts, self._function(lookup.unreflect(parse)))
        element = self._function(lookup.unreflect(get).bindTo(java_list))
        return self.jvm.java.util.ArrayList(self.lists.transform(indices, element))

    def _function(self, handle: Any) -> Any:
        proxies = self.jvm.java.lang.invoke.MethodHandleProxies
        return proxies.asInterfaceInstance(self._class(_FUNCTION), handle)

    def _lookup(self) -> Any:
        return self.jvm.java.lang.invoke.MethodHandles.publicLookup()

    def _class(self, name: str) -> Any:
        thread = self.jvm.java.lang.Thread.currentThread()
        return thread.getContextClassLoader().loadClass(name)

    def _classes(self, *names: str) -> Any:
        array = self._gateway.new_array(self.jvm.java.lang.Class, len(names))
        for position, name in enumerate(names):
            array[position] = self._class(name)
        return array

    def _int_class(self, kind: Any) -> Any:
        array = self._gateway.new_array(self.jvm.java.lang.Class, 1)
        array[0] = kind
        return array
