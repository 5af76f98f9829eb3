"""Calls into the JVM that would be slow or impossible as plain py4j calls.

A py4j call costs a tenth of a millisecond, so a loop over ten thousand files costs seconds. What is
asked of every element of a Java list is asked here in bulk: a Java method becomes a function
object inside the JVM, and only one joined string crosses the border.

A dotted name such as `jvm.org.apache.iceberg.SchemaParser` costs more than the call: py4j looks for
a class of each part's name in every jar, at every use. Here classes are named whole, and what
pyspark itself asks for again and again is remembered.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

from py4j.java_gateway import JavaClass, JavaMember
from pyspark.sql import SparkSession

from icdc_api.errors import Bug

_SEPARATOR = "\x01"
_GUAVA = "org.apache.iceberg.relocated.com.google.common."
_FUNCTION = _GUAVA + "base.Function"
_SCALA_FUNCTION = "scala.Function1"
Argument = tuple[str, Any]
"""Of a Java method: the name of its declared class, and the value."""

_OBJECT, _STRING, _INTEGER = "java.lang.Object", "java.lang.String", "java.lang.Integer"

_PYSPARK_NAMES = (
    "PythonUtils",
    "PythonSQLUtils",
    "functions",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.catalyst.trees.PySparkCurrentOrigin",
)
"""What pyspark looks up for each column and each query."""

_MADE: WeakKeyDictionary[Any, dict[tuple[str, ...], Any]] = WeakKeyDictionary()
"""Function objects by gateway: they are the same for every table, and slow to make."""


class Statics:
    """The static methods of one Java class, without any look-up before they are called."""

    def __init__(self, name: str, client: Any) -> None:
        self._name = name
        self._client = client

    def __getattr__(self, method: str) -> Any:
        return JavaMember(method, None, f"z:{self._name}", self._client)


class Bridge:
    """Access to one session's JVM. Cheap to make; holds no state of its own."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self.jvm: Any = cast(Any, session._jvm)
        self.java_session: Any = session._jsparkSession
        self._gateway: Any = session.sparkContext._gateway
        self._made = _MADE.setdefault(self._gateway, {})
        for name in _PYSPARK_NAMES:
            if name not in vars(self.jvm):
                setattr(self.jvm, name, getattr(self.jvm, name))
        # Spark looks up catalogs in the configuration of the thread's active session, whatever
        # session it is handed; and each table has a session and a thread of its own.
        sessions = self.statics("org.apache.spark.sql.SparkSession")
        sessions.setActiveSession(self.java_session)

    @property
    def lists(self) -> Any:
        """Guava's `Lists`, as relocated into the Iceberg jar."""
        return self.statics(_GUAVA + "collect.Lists")

    def statics(self, class_name: str) -> Any:
        """The static methods of a class, which are called by their names."""
        return Statics(class_name, self._gateway._gateway_client)

    def new(self, class_name: str, *arguments: Any) -> Any:
        """A new object of a class."""
        return JavaClass(class_name, self._gateway._gateway_client)(*arguments)

    def is_a(self, java: Any, class_name: str) -> bool:
        """Whether an object is of a class, or of one below it."""
        return bool(self._class(class_name).isInstance(java))

    def is_kind(self, class_name: str, above: str) -> bool:
        """Whether a class is another one, or below it."""
        return bool(self._class(above).isAssignableFrom(self._class(class_name)))

    def each(self, java_list: Any) -> list[Any]:
        """The elements of a Java list. Python's own loop over one ends by a Java exception, and
        pyspark asks a dozen questions about each that it meets."""
        return [java_list.get(position) for position in range(java_list.size())]

    def strings(self, values: Sequence[str]) -> Any:
        """A Java array of strings."""
        return self.array(_STRING, values)

    def array(self, class_name: str, values: Sequence[Any]) -> Any:
        """A Java array of a class."""
        kind = JavaClass(class_name, self._gateway._gateway_client)
        array = self._gateway.new_array(kind, len(values))
        for position, value in enumerate(values):
            array[position] = value
        return array

    def drain(self, closeable: Any, only: Any = None) -> Any:
        """A Java list of what a closeable iterable holds, `only` what a predicate wants; closes it.

        What is not wanted is let go of at once, so that it never is in memory as a whole.
        """
        try:
            if only is not None:
                wanted = self.statics(_GUAVA + "collect.Iterables").filter(closeable, only)
                return self.lists.newArrayList(wanted)
            return self.lists.newArrayList(closeable)
        finally:
            closeable.close()

    def is_any_of(self, values: Iterable[str], functions: Sequence[Any]) -> Any:
        """A Java predicate: whether the functions, the last one first, lead to one of the texts."""
        predicates = self.statics(_GUAVA + "base.Predicates")
        chosen = self.new("java.util.HashSet", self._split(_SEPARATOR, values))
        found = predicates.__getattr__("in")(chosen)
        for function in functions:
            found = predicates.compose(found, function)
        return found

    def flatten(self, java_list: Any) -> Any:
        """One Java list out of a Java list of lists."""
        iterables = self.statics(_GUAVA + "collect.Iterables")
        return self.lists.newArrayList(iterables.concat(java_list))

    def items(self, java_map: Any) -> tuple[Any, Any]:
        """The keys and the values of a Java map as Java lists, in one order. Python's own way goes
        through the map call by call, and ends by a Java exception."""
        entries = self.lists.newArrayList(java_map.entrySet())
        of = "java.util.Map$Entry"
        return self.map(entries, of, "getKey"), self.map(entries, of, "getValue")

    def map(self, java_list: Any, class_name: str, method: str, *arguments: Argument) -> Any:
        """A Java list of what a method answers for each element, worked out at each look."""
        if not arguments:
            return self.lists.transform(java_list, self.function(class_name, method))
        return self._map(java_list, class_name, method, [], arguments)

    def map_static(
        self, java_list: Any, class_name: str, method: str, element: str, *arguments: Argument
    ) -> Any:
        """The same of a static method, whose first argument is the element, of that class."""
        return self._map(java_list, class_name, method, [element], arguments)

    def map_by(self, java_list: Any, owner: Any, class_name: str, method: str, element: str) -> Any:
        """The same of a method of one object, whose only argument is the element."""
        handle = self._handle(class_name, method, [self._class(element)])
        return self.lists.transform(java_list, self._as_function(handle.bindTo(owner)))

    def texts(self, java_list: Any) -> list[str]:
        """`String.valueOf` of each element, `"null"` for null."""
        count = int(java_list.size())
        if count == 0:
            return []
        as_text = self.lists.transform(java_list, self.function(_STRING, "valueOf", _OBJECT))
        joined: str = self.statics(_STRING).join(_SEPARATOR, as_text)
        parts = joined.split(_SEPARATOR)
        if len(parts) != count:
            raise Bug(
                f"{count} Java objects gave {len(parts)} texts: one holds a control character"
            )
        return parts

    def pick(self, java_list: Any, positions: Sequence[int]) -> Any:
        """A new Java list of the elements at these positions, in this order."""
        if not positions:
            return self.new("java.util.ArrayList")
        texts = self._split(",", map(str, positions))
        indices = self.lists.transform(texts, self.function(_INTEGER, "valueOf", _STRING))
        element = self._as_function(self._get.bindTo(java_list))
        return self.new("java.util.ArrayList", self.lists.transform(indices, element))

    def _split(self, separator: str, values: Iterable[str]) -> Any:
        """A Java list of strings, in one call."""
        pattern = self.statics("java.util.regex.Pattern").compile(separator)
        stream = pattern.splitAsStream(separator.join(values))
        return stream.collect(self.statics("java.util.stream.Collectors").toList())

    def _map(
        self,
        java_list: Any,
        class_name: str,
        method: str,
        leading: Sequence[str],
        arguments: Sequence[Argument],
    ) -> Any:
        kinds = [self._class(name) for name in (*leading, *(kind for kind, _ in arguments))]
        handle = self._handle(class_name, method, kinds)
        if arguments:
            values = self.array(_OBJECT, [value for _, value in arguments])
            handles = self.statics("java.lang.invoke.MethodHandles")
            handle = handles.insertArguments(handle, 1, values)
        return self.lists.transform(java_list, self._as_function(handle))

    @property
    def _get(self) -> Any:
        """The method handle of `List.get`."""

        def make() -> Any:
            whole_number = JavaClass(_INTEGER, self._gateway._gateway_client).TYPE
            return self._handle("java.util.List", "get", [whole_number])

        return self._once(("java.util.List", "get"), make)

    def function(self, class_name: str, method: str, *arguments: str) -> Any:
        """A method as a function object: of its object, or static with its argument."""

        def make() -> Any:
            kinds = [self._class(name) for name in arguments]
            return self._as_function(self._handle(class_name, method, kinds))

        return self._once((class_name, method, *arguments), make)

    def scala_function(self, class_name: str, method: str) -> Any:
        """A method without arguments as a function object for Scala's own collections."""

        def make() -> Any:
            return self._as_function(self._handle(class_name, method, []), _SCALA_FUNCTION)

        return self._once((_SCALA_FUNCTION, class_name, method), make)

    def _once(self, key: tuple[str, ...], make: Callable[[], Any]) -> Any:
        # Two threads may make the same one: either is as good.
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _handle(self, class_name: str, method: str, arguments: Sequence[Any]) -> Any:
        found = self._class(class_name).getMethod(method, self.array("java.lang.Class", arguments))
        return self.statics("java.lang.invoke.MethodHandles").publicLookup().unreflect(found)

    def _as_function(self, handle: Any, kind: str = _FUNCTION) -> Any:
        proxies = self.statics("java.lang.invoke.MethodHandleProxies")
        return proxies.asInterfaceInstance(self._class(kind), handle)

    def _class(self, name: str) -> Any:
        thread = self.statics("java.lang.Thread").currentThread()
        return thread.getContextClassLoader().loadClass(name)
