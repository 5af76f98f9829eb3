"""Act on tables and indices in scenarios, as users, as maintenance, as somebody else."""

from collections.abc import Callable

from icdc_testing.tables.scenarios import ScenarioTable, put, select_rows

FILL = "insert into {t} " + select_rows("(1,'a',1), (2,'b',2), (3,'c',3)")
"""Three rows in one file, for the columns that scenarios have by default."""
FILLED = [put(str(n), id=n, name="abc"[n - 1], age=n) for n in (1, 2, 3)]
FOUR = put("4", id=4, name="d", age=4)
INSERT_FOUR = "insert into {t} values (4,'d',4)"
COMPACT = (
    "call {c}.system.rewrite_data_files(table => '{n}', options => map('rewrite-all','true', "
    "'remove-dangling-deletes','true'))"
)
EXPIRE = (
    "call {c}.system.expire_snapshots(table => '{n}', "
    "older_than => timestamp '2100-01-01 00:00:00', retain_last => 1)"
)


def set_snapshot(number: int) -> Callable[[ScenarioTable], None]:
    """Set `main` to the snapshot of this number, counted from 0."""

    def act(stage: ScenarioTable) -> None:
        snapshot_id = stage.list_snapshots()[number]
        stage.sql(f"call {{c}}.system.set_current_snapshot('{{n}}', {snapshot_id})")

    return act


def note_snapshot(stage: ScenarioTable) -> None:
    """Remember the newest snapshot: `{noted}` in messages."""
    stage.noted = stage.list_snapshots()[-1]


def remove_tags(stage: ScenarioTable) -> None:
    """Remove, as somebody else, the tags that keep snapshots."""
    for row in stage.sql("select name from {t}.refs where type = 'TAG'"):
        stage.sql(f"alter table {{t}} drop tag `{row[0]}`")


def recreate_table(stage: ScenarioTable) -> None:
    """Drop the table, and create another one of its name."""
    stage.sql("drop table {t}")
    stage.create()


def delete_index(stage: ScenarioTable) -> None:
    """Delete, as somebody else, the index behind the alias."""
    for index in stage.list_indices():
        stage.call("DELETE", index)


def check_points_to(
    number: int, *, retained: tuple[int, ...] = ()
) -> Callable[[ScenarioTable], None]:
    """Return a check that the alias points to one physical index; `retained` are older ones."""

    def check(stage: ScenarioTable) -> None:
        alias = stage.scenario.alias
        assert stage.list_indices() == [f"{alias}-{number:06d}"]
        indices = stage.call("GET", f"{alias}-*/_alias")
        assert sorted(indices) == [f"{alias}-{index:06d}" for index in (*retained, number)]

    return check


def has_field(name: str, kind: str) -> Callable[[ScenarioTable], None]:
    """Return a check that the mapping has a field of this type."""

    def check(stage: ScenarioTable) -> None:
        assert stage.read_mapping()[name]["type"] == kind

    return check
