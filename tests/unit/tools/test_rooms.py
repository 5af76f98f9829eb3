"""Rooms and floors of graphs that can be drawn by hand."""

import subprocess
import sys
from pathlib import Path

import pytest

import rooms

pytestmark = pytest.mark.unit

TOWER = {
    "replication": frozenset({"diff", "opensearch"}),
    "diff": frozenset({"opensearch"}),
    "opensearch": frozenset[str](),
}
CIRCLE = {
    "top": frozenset({"left"}),
    "left": frozenset({"right"}),
    "right": frozenset({"left", "ground"}),
    "ground": frozenset[str](),
}


def test_a_room_is_one_floor_above_the_highest_that_it_imports() -> None:
    assert rooms.assign_floors(TOWER) == {"opensearch": 0, "diff": 1, "replication": 2}
    assert rooms.find_circles(TOWER) == []


def test_rooms_of_a_circle_share_a_floor_and_are_named() -> None:
    floors = rooms.assign_floors(CIRCLE)
    assert floors == {"ground": 0, "left": 1, "right": 1, "top": 2}
    assert rooms.find_circles(CIRCLE) == [frozenset({"left", "right"})]
    assert "circle: left right" in rooms.format_drawing(rooms.Package("p", CIRCLE))


def test_a_package_is_summed_up_in_a_line() -> None:
    line = rooms.format_summary([rooms.Package("icdc_spark", TOWER)]).splitlines()[1]
    assert line.split() == ["icdc_spark", "3", "3", "3", "0"]


def test_the_floors_of_a_package_are_drawn_from_the_top_down() -> None:
    drawn = rooms.format_drawing(rooms.Package("icdc_spark", TOWER)).splitlines()
    assert [line.split() for line in drawn] == [
        ["icdc_spark"],
        ["2", "replication", "->", "diff", "opensearch"],
        ["1", "diff", "->", "opensearch"],
        ["0", "opensearch"],
    ]


def test_the_graph_is_that_of_the_tree_and_not_of_what_is_imported(tmp_path: Path) -> None:
    package = tmp_path / "crds" / "icdc_api"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "only_there.py").write_text("import icdc_api", encoding="utf-8")
    # In a process of its own: it forgets what is imported.
    code = (
        "import sys, icdc_api.errors, rooms; from pathlib import Path; "
        "print(sorted(rooms.build_graph(Path(sys.argv[1])).modules))"
    )
    tools = Path(rooms.__file__).parent
    path = [str(tools), *sys.path]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["['icdc_api',", "'icdc_api.only_there']"]
