"""What other hands do to the index of a table of three rows, and what comes of it.

The steps of scenarios: the table is exported, somebody acts on its index by requests to the node,
and the runs after that write what they must.
"""

from collections.abc import Callable
from typing import Any

from icdc_testing.tables.scenarios import Act, Op, ScenarioStep, ScenarioTable, put
from icdc_testing.target.node_calls import call

MADE = "create table {t} using iceberg as select /*+ coalesce(1) */ * from values "
MADE += "(1, 'a'), (2, 'b'), (3, 'c') as rows(id, name)"
ROWS = [put(str(key), id=key, name=name) for key, name in ((1, "a"), (2, "b"), (3, "c"))]
ADDED = "insert into {t} (id, name) values (4, 'd')"
NEW = put("4", id=4, name="d")
LATER = "insert into {t} values (5, 'e')"
LAST = put("5", id=5, name="e")


def send_to_index(method: str, path: str = "", body: object = None, *, status: int = 200) -> Act:
    """Return the act of sending a request to the first index; `status` is that of the answer."""
    return send_to_node(method, "/{index}" + path, body, status=status)


def send_to_node(method: str, path: str, body: object = None, *, status: int = 200) -> Act:
    """Return the act of sending a request; {alias} and {index} in `path` are this table's."""

    def act(stage: ScenarioTable) -> None:
        alias = stage.scenario.alias
        target = path.replace("{alias}", alias).replace("{index}", f"{alias}-000001")
        answer = call(stage.url, method, target, body)
        assert answer.status == status or answer.status == status + 1, answer.body

    return act


def change_setting(key: str, value: object) -> Act:
    """Return the act of changing a setting of the first index; None puts the default back."""
    return send_to_index("PUT", "/_settings", {f"index.{key}": value})


def change_alias(verb: str, index: str, **how: Any) -> Act:
    """Return the act of adding the alias to an index, whose name begins with it, or removing it."""

    def act(stage: ScenarioTable) -> None:
        mine = stage.scenario.alias
        action = {verb: {"index": f"{mine}-{index}", "alias": mine, **how}}
        assert call(stage.url, "POST", "/_aliases", {"actions": [action]}).status == 200

    return act


def do_all(*acts: Act) -> Act:
    """Return the act of doing one after the other."""

    def act(stage: ScenarioTable) -> None:
        for one in acts:
            assert callable(one)
            one(stage)

    return act


def check_served(number: int) -> Callable[[ScenarioTable], None]:
    """Return the check that readers see this index of ours and no other one."""

    def check(stage: ScenarioTable) -> None:
        # Asked about all indices, the node would not answer for the one whose metadata is blocked.
        mine = stage.scenario.alias
        aliases = call(stage.url, "GET", f"/{mine}/_alias/{mine}").json
        assert sorted(aliases) == [f"{stage.scenario.alias}-{number:06d}"], aliases

    return check


def export_first(**more: Any) -> ScenarioStep:
    """Return the first step: a table of three rows is made and exported."""
    return ScenarioStep(do=[MADE], writes=ROWS, check=check_served(1), **more)


def go_on(*acts: Act, change: str = ADDED, writes: tuple[Op, ...] = (NEW,), **more: Any) -> Any:
    """Return steps after which the next batch is in the same index, which readers see."""
    return [
        export_first(),
        ScenarioStep(do=[*acts, change], writes=writes, check=check_served(1), **more),
    ]


def export_anew(*acts: Act, into: int = 2) -> Any:
    """Return steps by which the table is exported into the next index, which is then followed."""
    return [
        export_first(),
        ScenarioStep(do=[*acts, ADDED], writes=[*ROWS, NEW], into=into, check=check_served(into)),
        ScenarioStep(do=[LATER], writes=[LAST], into=into, check=check_served(into)),
    ]
