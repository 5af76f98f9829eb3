"""Calls into the JVM that would be slow or impossible as plain py4j calls.

A py4j call costs a tenth of a millisecond, so a loop over ten thousand files costs seconds. So
questions to every element of a Java list are asked in bulk: a Java method becomes a function object
inside the JVM, and only one joined string crosses the border. This module must not know Iceberg.

A dotted name such as `jvm.org.apache.iceberg.SchemaParser` costs more than the call: py4j looks for
a class of each part's name in every jar, at every use. Here classes have their full names, and
the names that pyspark itself uses again and again are cached.

Example: the locations of the 10,000 data files of a Java list `tasks`, in about ten calls.

    files = bridge.map(tasks, "org.apache.iceberg.ContentScanTask", "file")      # lazy, in the JVM
    locations = bridge.map(files, "org.apache.iceberg.ContentFile", "location")  # lazy as well
    bridge.read_texts(locations)                                                 # list[str]
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

from py4j.java_gateway import JavaClass, JavaMember
from pyspark.sql import SparkSession

from icdc_api.errors import Bug

# Iceberg's paths, names and JSON hold no control characters; `read_texts` checks that.
_SEPARATOR = "\x01"
_GUAVA = "org.apache.iceberg.relocated.com.google.common."
_FUNCTION = _GUAVA + "base.Function"
_SCALA_FUNCTION = "scala.Function1"
Argument = tuple[str, Any]
"""An argument of a Java method: the name of its declared class, and the value."""

_OBJECT, _STRING, _INTEGER = "java.lang.Object", "java.lang.String", "java.lang.Integer"

_PYSPARK_NAMES = (
    "PythonUtils",
    "PythonSQLUtils",
    "functions",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.catalyst.trees.PySparkCurrentOrigin",
)
"""Names that pyspark looks up for each column and each query."""

_FUNCTIONS: WeakKeyDictionary[Any, dict[tuple[str, ...], Any]] = WeakKeyDictionary()
"""Function objects by gateway: they are the same for every table, and slow to create."""


class Statics:
    """The static methods of one Java class. Nothing is looked up before a call."""

    def __init__(self, name: str, client: Any) -> None:
        self._name = name
        self._client = client

    def __getattr__(self, method: str) -> Any:
        # "z:" is py4j's mark of a class, in place of the id of an object.
        return JavaMember(method, None, f"z:{self._name}", self._client)


class Bridge:
    """Access to one session's JVM. Cheap to create; holds no state of its own."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self.jvm: Any = cast(Any, session._jvm)
        self.java_session: Any = session._jsparkSession
        self._gateway: Any = session.sparkContext._gateway
        self._functions = _FUNCTIONS.setdefault(self._gateway, {})
        for name in _PYSPARK_NAMES:
            # As an attribute of the object it is found before py4j's `__getattr__` is asked.
            if name not in vars(self.jvm):
                setattr(self.jvm, name, getattr(self.jvm, name))
        # Spark looks up catalogs in the configuration of the thread's active session, whatever
        # session it is passed. Each table has a session and a thread of its own.
        sessions = self.get_statics("org.apache.spark.sql.SparkSession")
        sessions.setActiveSession(self.java_session)

    @property
    def lists(self) -> Any:
        """Guava's `Lists`, as relocated into the Iceberg jar."""
        return self.get_statics(_GUAVA + "collect.Lists")

    def get_statics(self, class_name: str) -> Any:
        """Return the static methods of a class, to be called by their names."""
        return Statics(class_name, self._gateway._gateway_client)

    def create_object(self, class_name: str, *arguments: Any) -> Any:
        """Create an object of a class."""
        return JavaClass(class_name, self._gateway._gateway_client)(*arguments)

    def is_a(self, java: Any, class_name: str) -> bool:
        """Return whether an object is an instance of a class."""
        return bool(self.load_class(class_name).isInstance(java))

    def is_subclass(self, class_name: str, base_name: str) -> bool:
        """Return whether a class is another class or extends it."""
        return bool(self.load_class(base_name).isAssignableFrom(self.load_class(class_name)))

    def list_elements(self, java_list: Any) -> list[Any]:
        """Return the elements of a Java list as Java objects."""
        # Python's own loop over a Java list ends by a Java exception, and pyspark makes a dozen
        # calls for each exception that it meets.
        return [java_list.get(position) for position in range(java_list.size())]

    def create_strings(self, values: Sequence[str]) -> Any:
        """Create a Java array of strings."""
        return self.create_array(_STRING, values)

    def create_array(self, class_name: str, values: Sequence[Any]) -> Any:
        """Create a Java array of a class."""
        java_class = JavaClass(class_name, self._gateway._gateway_client)
        array = self._gateway.new_array(java_class, len(values))
        for position, value in enumerate(values):
            array[position] = value
        return array

    def drain(self, closeable: Any, only: Any = None) -> Any:
        """Return a Java list of the elements of a closeable iterable, and close it.

        `only` is a Java predicate: elements that it refuses are dropped at once, so that they are
        never in memory together.
        """
        try:
            if only is not None:
                accepted = self.get_statics(_GUAVA + "collect.Iterables").filter(closeable, only)
                return self.lists.newArrayList(accepted)
            return self.lists.newArrayList(closeable)
        finally:
            closeable.close()

    def slice(self, closeable: Any, start: int, size: int) -> Any:
        """Return a Java list of up to `size` elements of a closeable iterable, and close it.

        The first `start` elements are passed over, and are never in memory together.
        """
        try:
            iterables = self.get_statics(_GUAVA + "collect.Iterables")
            return self.lists.newArrayList(iterables.limit(iterables.skip(closeable, start), size))
        finally:
            closeable.close()

    def clear(self, java_list: Any) -> None:
        """Remove all elements of a Java list, so that the JVM may free them.

        The list itself stays until Python collects its cycles, because py4j makes one for each
        list: hundreds of them may have been made until then.
        """
        # The `clear` of py4j's own class removes one element after the other.
        JavaMember("clear", None, java_list._target_id, self._gateway._gateway_client)()

    def is_any_of(self, values: Iterable[str], functions: Sequence[Any]) -> Any:
        """Return a Java predicate: true if the functions map an element to one of the values.

        The last function is applied first: [location, file] asks for the location of the file.
        """
        predicates = self.get_statics(_GUAVA + "base.Predicates")
        java_values = self.create_object("java.util.HashSet", self._split(_SEPARATOR, values))
        # `in` is a keyword of Python.
        predicate = predicates.__getattr__("in")(java_values)
        for function in functions:
            predicate = predicates.compose(predicate, function)
        return predicate

    def flatten(self, java_list: Any) -> Any:
        """Return one Java list of the elements of a Java list of lists."""
        iterables = self.get_statics(_GUAVA + "collect.Iterables")
        return self.lists.newArrayList(iterables.concat(java_list))

    def list_items(self, java_map: Any) -> tuple[Any, Any]:
        """Return the keys and the values of a Java map as two Java lists, in the same order."""
        # Python's own loop over a Java map makes calls per entry, and ends by a Java exception.
        entries = self.lists.newArrayList(java_map.entrySet())
        entry = "java.util.Map$Entry"
        return self.map(entries, entry, "getKey"), self.map(entries, entry, "getValue")

    def map(self, java_list: Any, class_name: str, method: str, *arguments: Argument) -> Any:
        """Return a Java list of what a method of `class_name` answers for each element.

        The list is a view: the method is called each time that an element is read.
        """
        if not arguments:
            return self.lists.transform(java_list, self.build_function(class_name, method))
        return self._map(java_list, class_name, method, [], arguments)

    def map_static(
        self, java_list: Any, class_name: str, method: str, element: str, *arguments: Argument
    ) -> Any:
        """Like `map`, for a static method that takes an element of class `element` first."""
        return self._map(java_list, class_name, method, [element], arguments)

    def map_by(self, java_list: Any, owner: Any, class_name: str, method: str, element: str) -> Any:
        """Like `map`, for a method of the object `owner` whose only argument is the element."""
        handle = self._handle(class_name, method, [self.load_class(element)])
        return self.lists.transform(java_list, self._wrap_handle(handle.bindTo(owner)))

    def read_texts(self, java_list: Any) -> list[str]:
        """Return `String.valueOf` of each element of a Java list; "null" for null."""
        count = int(java_list.size())
        if count == 0:
            return []
        as_text = self.lists.transform(java_list, self.build_function(_STRING, "valueOf", _OBJECT))
        joined: str = self.get_statics(_STRING).join(_SEPARATOR, as_text)
        parts = joined.split(_SEPARATOR)
        if len(parts) != count:
            raise Bug(
                f"{count} Java objects gave {len(parts)} texts: one holds a control character"
            )
        return parts

    def pick(self, java_list: Any, positions: Sequence[int]) -> Any:
        """Return a new Java list of the elements at these positions, in the given order."""
        if not positions:
            return self.create_object("java.util.ArrayList")
        texts = self._split(",", map(str, positions))
        indices = self.lists.transform(texts, self.build_function(_INTEGER, "valueOf", _STRING))
        element = self._wrap_handle(self._get.bindTo(java_list))
        return self.create_object("java.util.ArrayList", self.lists.transform(indices, element))

    def _split(self, separator: str, values: Iterable[str]) -> Any:
        """Return a Java list of strings; one string crosses the border."""
        pattern = self.get_statics("java.util.regex.Pattern").compile(separator)
        stream = pattern.splitAsStream(separator.join(values))
        return stream.collect(self.get_statics("java.util.stream.Collectors").toList())

    def _map(
        self,
        java_list: Any,
        class_name: str,
        method: str,
        leading: Sequence[str],
        arguments: Sequence[Argument],
    ) -> Any:
        """Return a view that calls a method with further arguments, which follow the element."""
        kinds = [self.load_class(name) for name in (*leading, *(kind for kind, _ in arguments))]
        handle = self._handle(class_name, method, kinds)
        if arguments:
            values = self.create_array(_OBJECT, [value for _, value in arguments])
            handles = self.get_statics("java.lang.invoke.MethodHandles")
            handle = handles.insertArguments(handle, 1, values)
        return self.lists.transform(java_list, self._wrap_handle(handle))

    @property
    def _get(self) -> Any:
        """The method handle of `List.get`, whose argument is a primitive int."""

        def create() -> Any:
            primitive = JavaClass(_INTEGER, self._gateway._gateway_client).TYPE
            return self._handle("java.util.List", "get", [primitive])

        return self._get_or_create(("java.util.List", "get"), create)

    def build_function(self, class_name: str, method: str, *arguments: str) -> Any:
        """Return a Guava function: an instance method of its argument, or a static method."""

        def create() -> Any:
            kinds = [self.load_class(name) for name in arguments]
            return self._wrap_handle(self._handle(class_name, method, kinds))

        return self._get_or_create((class_name, method, *arguments), create)

    def build_scala_function(self, class_name: str, method: str) -> Any:
        """Return a method without arguments as a function for Scala's collections."""

        def create() -> Any:
            return self._wrap_handle(self._handle(class_name, method, []), _SCALA_FUNCTION)

        return self._get_or_create((_SCALA_FUNCTION, class_name, method), create)

    def _get_or_create(self, key: tuple[str, ...], create: Callable[[], Any]) -> Any:
        # Two threads may create the same function: either is as good, so there is no lock.
        if key not in self._functions:
            self._functions[key] = create()
        return self._functions[key]

    def _handle(self, class_name: str, method: str, arguments: Sequence[Any]) -> Any:
        classes = self.create_array("java.lang.Class", arguments)
        java_method = self.load_class(class_name).getMethod(method, classes)
        return (
            self.get_statics("java.lang.invoke.MethodHandles").publicLookup().unreflect(java_method)
        )

    def _wrap_handle(self, handle: Any, kind: str = _FUNCTION) -> Any:
        proxies = self.get_statics("java.lang.invoke.MethodHandleProxies")
        return proxies.asInterfaceInstance(self.load_class(kind), handle)

    def load_class(self, name: str) -> Any:
        """Return the object that stands for a class in the JVM."""
        # Of the thread: the class loader of the JVM itself does not see jars of spark-submit.
        thread = self.get_statics("java.lang.Thread").currentThread()
        return thread.getContextClassLoader().loadClass(name)
