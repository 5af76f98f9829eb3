"""Judge what a host needs for `icdc run -f`: programs, spec, Secrets, tables. Pure.

Everything comes as it was read by `host_facts`, an error included, so that a test gives one fact
another value. What runs need of OpenSearch is in `target_checks`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from icdc_api.base import format_count
from icdc_api.errors import BadSpec, IcdcError, PassingError
from icdc_api.spec.cautions import find_cautions
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.spec.secrets import describe_missing_keys
from icdc_api.spec.tables import Table
from icdc_cli.doctor.findings import Finding, blame, blame_server, confirm, skip, warn
from icdc_cli.exits import Exit
from icdc_cli.local.application import INSTALL, LOCAL_PACKAGES
from icdc_operator.cluster.heads.catalog_properties import OutOfSight
from icdc_operator.cluster.heads.table_facts import TableFacts
from icdc_operator.manifests.secret_names import list_secret_fields


@dataclass(frozen=True)
class HostFacts:
    """What was read of a host and of a pipeline's file."""

    source: str
    """The file, as given."""
    python: str
    """Version of the running Python."""
    missing_packages: tuple[str, ...] = ()
    """Packages of a run on this host that are not installed."""
    java: str | IcdcError = "17"
    """The JDK that Spark runs on, or why there is none."""
    jars: Mapping[str, bool] = field(default_factory=dict)
    """Whether each set of jars that the pipeline needs is in the cache."""
    can_fetch: bool = True
    """Whether Maven is installed, which fetches what is missing."""
    spec: PipelineSpec | BadSpec = BadSpec("not read")  # noqa: RUF009 - as frozen as the others
    """The spec, or why it is refused."""
    secrets: Mapping[str, frozenset[str] | IcdcError] = field(default_factory=dict)
    """Keys of each Secret that the pipeline names, or why it cannot be read."""
    tables: Mapping[str, TableFacts | IcdcError] = field(default_factory=dict)
    """What the catalog says of each table, by name, or why it says nothing."""


Check = Callable[[HostFacts], Iterator[Finding]]


def check_packages(facts: HostFacts) -> Iterator[Finding]:
    """Judge Python and the packages of a local run."""
    if facts.missing_packages:
        missing = " and ".join(facts.missing_packages)
        yield blame("Python packages", f"Python {facts.python} has no {missing}", INSTALL)
    else:
        yield confirm("Python packages", f"Python {facts.python} with {', '.join(LOCAL_PACKAGES)}")


def check_java(facts: HostFacts) -> Iterator[Finding]:
    """Judge the JDK."""
    if isinstance(facts.java, IcdcError):
        yield blame(
            "JDK",
            facts.java.message,
            "apt-get install openjdk-17-jdk-headless (or your system's package), or export "
            "JAVA_HOME=FOLDER",
        )
    else:
        yield confirm("JDK", facts.java)


def check_jars(facts: HostFacts) -> Iterator[Finding]:
    """Judge the jars in the cache; what is missing is fetched by the next run, given Maven."""
    for name, present in facts.jars.items():
        check = f"jars of the set {name}"
        fetch = f"python -m icdc_cli.embedded.jars fetch {name}"
        if present:
            yield confirm(check)
        elif facts.can_fetch:
            yield warn(check, "not in the cache yet: the first run downloads them", fetch)
        else:
            yield blame(
                check,
                "not in the cache, and Maven (mvn) is not installed",
                f"install Maven, then {fetch}",
            )


def check_spec(facts: HostFacts) -> Iterator[Finding]:
    """Judge the file by itself."""
    if isinstance(facts.spec, BadSpec):
        cure = f"edit {facts.source} as the message says"
        yield blame("spec", facts.spec.message, cure, code=Exit.USAGE)
        return
    yield confirm("spec", format_count(len(facts.spec.tables), "table"))
    # A caution is about what is allowed but hardly wanted, so runs start.
    for caution in find_cautions(facts.spec):
        yield warn("spec", caution, f"edit {facts.source}")


def check_secrets(facts: HostFacts) -> Iterator[Finding]:
    """Judge the Secrets that the pipeline names, by their keys."""
    if isinstance(facts.spec, BadSpec):
        return
    for where, name in list_secret_fields(facts.spec):
        keys = facts.secrets.get(name, frozenset())
        check = f"Secret {name} ({where})"
        put = f"DIR/{name}/KEY with --secrets-dir DIR"
        if isinstance(keys, IcdcError):
            yield blame(check, keys.message, f"write each key into a file {put}")
        elif missing := describe_missing_keys(where, keys):
            yield blame(check, f"has no {missing}", f"write it into a file {put}")
        else:
            yield confirm(check, f"has the keys {', '.join(sorted(keys))}")


def check_tables(facts: HostFacts) -> Iterator[Finding]:
    """Judge catalog, branch, columns and identifier of each table."""
    if isinstance(facts.spec, BadSpec):
        return
    for table in facts.spec.tables:
        read = facts.tables.get(table.name, BadSpec("not read"))
        yield (
            _judge_unread(table, read, facts)
            if isinstance(read, IcdcError)
            else (_judge_table(table, read, facts))
        )


def _judge_unread(table: Table, error: IcdcError, facts: HostFacts) -> Finding:
    check = f"table {table.name}"
    # Not a problem: Spark reads catalogs that pyiceberg does not, such as `type: hadoop`.
    if isinstance(error, OutOfSight):
        return skip(check, error.message, f"icdc plan -f {facts.source}")
    cure = f"icdc explain {type(error).__name__}"
    return blame_server(check, error.message, cure, may_pass=isinstance(error, PassingError))


def _list_named(table: Table) -> Iterator[tuple[str, str]]:
    """Yield each column that has to be in the table, after the field that names it."""
    yield from (("identifierColumns", name) for name in table.identifier_columns or ())
    yield from (("columns", name) for name in table.columns or ())
    for entry in table.fields or ():
        yield from (("fields", name) for name in (entry.from_, entry.exclude) if name)


def _judge_table(table: Table, read: TableFacts, facts: HostFacts) -> Finding:
    check, edit = f"table {table.name}", f"edit {facts.source}: spec.tables[]"
    # A table has no `main` before its first commit, and a pipeline may be there before that.
    if table.branch not in read.branches and table.branch != "main":
        text = f"has no branch {table.branch!r}; it has {', '.join(read.branches) or 'none'}"
        return blame(check, text, f"{edit}.branch, one of these branches")
    wanted = table.identifier_columns or ()
    missing = read.find_missing(_list_named(table))
    if missing:
        where, names = next(iter(missing.items()))
        text = f"has no column {', '.join(map(read.suggest, names))}"
        return blame(check, text, f"{edit}.{where}, as in the table")
    if not (wanted or read.identifiers or table.append_only):
        return blame(
            check,
            "has no identifier fields, and the spec names no identifierColumns",
            f"{edit}.identifierColumns: the columns that identify a row (or ALTER TABLE "
            f"{table.name} SET IDENTIFIER FIELDS ...)",
        )
    key = wanted or read.identifiers
    columns = {read.renamed.get(name, name) for name in key}
    others = [one for one in table.routing or () if read.renamed.get(one, one) not in columns]
    if others:
        text = f"routing names {', '.join(others)}, not an identifier column ({', '.join(key)})"
        return blame(check, text, f"{edit}.routing, only columns that identify a row")
    return confirm(
        check, f"branch {table.branch}, identified by {', '.join(key) or 'none, appendOnly'}"
    )


CHECKS: tuple[Check, ...] = (
    check_packages,
    check_java,
    check_jars,
    check_spec,
    check_secrets,
    check_tables,
)
"""In the order in which a reader can act: a spec that is wrong makes all below it moot."""


def list_findings(facts: HostFacts) -> Iterator[Finding]:
    """Yield the findings of every check."""
    for check in CHECKS:
        yield from check(facts)
