"""Prints the import graph as rooms and floors, from the data that the import contracts check.

Contracts (.importlinter) say what is forbidden, and nothing of what there is. This shows it: what a
reader must know first, where a new module fits, and circles that no contract names yet.

The rooms of a package are the packages and modules directly in it. An arrow leads from a
room to one that it imports, however many modules of the two do so. A room's floor is one above the
highest room that it imports:

    replication imports diff and opensearch         rooms 3, arrows 3
    diff imports opensearch                         floor 2  replication
    opensearch imports neither                      floor 1  diff
                                                    floor 0  opensearch

Rooms that import each other in a circle have no order, and share a floor. Knows modules by name
alone: nothing of them is run.
"""

import argparse
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import grimp

from sources import ROOT, unpack_commit

# With every package that ships: an import of one that is not built into the graph would not show.
PACKAGES = ("icdc_api", "icdc_cli", "icdc_operator", "icdc_spark")
HOUSE = "the house"
"""Stands for a package above all, whose rooms are the packages themselves."""

Arrows = Mapping[str, frozenset[str]]
"""The rooms that each room imports."""


@dataclass(frozen=True)
class Package:
    """The rooms of one package and how they import each other."""

    name: str
    """As it is imported."""
    arrows: Arrows
    """Every room is a key."""

    @property
    def count(self) -> int:
        """Number of arrows."""
        return sum(len(imported) for imported in self.arrows.values())


def find_circles(arrows: Arrows) -> list[frozenset[str]]:
    """Return the sets of two or more rooms of which each is reached from every other.

        a imports b    a reaches b, c, a      a and b reach each other, and themselves:
        b imports a    b reaches a, b, c      the circle {a, b}
        b imports c    c reaches nothing      in no circle

    From every room anew: a package has a dozen of them.
    """
    reached = {room: _reach(arrows, room) for room in arrows}
    # A set, since every room of a circle finds the same circle.
    circles = {
        frozenset(other for other in reached[room] if room in reached[other])
        for room in arrows
        if room in reached[room]
    }
    return sorted(circles, key=sorted)


def _reach(arrows: Arrows, room: str) -> set[str]:
    """Return the rooms that are imported from `room` on, itself only where a way leads back."""
    reached: set[str] = set()
    waiting = list(arrows[room])
    while waiting:
        other = waiting.pop()
        if other not in reached:
            reached.add(other)
            waiting += arrows[other]
    return reached


def assign_floors(arrows: Arrows) -> dict[str, int]:
    """Return the floor of each room, 0 for one that imports no other; a circle shares its floor."""
    circle_of = {room: circle for circle in find_circles(arrows) for room in circle}
    floors: dict[str, int] = {}

    def compute_floor(room: str) -> int:
        if room not in floors:
            circle = circle_of.get(room, frozenset({room}))
            below = {other for member in circle for other in arrows[member]} - circle
            # Set for the whole circle at once, so that none of its rooms waits for another.
            level = max((compute_floor(other) + 1 for other in below), default=0)
            floors.update(dict.fromkeys(circle, level))
        return floors[room]

    for room in sorted(arrows):
        compute_floor(room)
    return floors


def build_graph(root: Path) -> grimp.ImportGraph:
    """Return the imports of the packages below `root`, of those that it has."""
    paths = [path for name in PACKAGES for path in root.glob(f"*/{name}")]
    # Before what is installed, or another commit would not be seen.
    sys.path[:0] = [str(path.parent) for path in paths]
    # What this script has imported itself would be taken from where it is installed.
    for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
        del sys.modules[name]
    # Half a second; a cache in the checkout would be one more thing that git has to ignore.
    return grimp.build_graph(*(path.name for path in paths), cache_dir=None)


def map_package(graph: grimp.ImportGraph, name: str) -> Package:
    """Return the rooms of a package and their arrows; of HOUSE, the packages themselves."""
    # An earlier commit may not have all of them.
    packages = frozenset(PACKAGES) & graph.modules
    rooms = packages if name == HOUSE else graph.find_children(name)
    # as_packages: an import anywhere below a room counts as the room's own.
    arrows = {
        room: frozenset(
            other
            for other in rooms - {room}
            if graph.direct_import_exists(importer=room, imported=other, as_packages=True)
        )
        for room in rooms
    }
    return Package(name, arrows)


def list_packages(graph: grimp.ImportGraph) -> list[str]:
    """Return the house, then every package that has rooms, each before what is in it."""
    return [HOUSE, *sorted(name for name in graph.modules if graph.find_children(name))]


def format_summary(packages: Iterable[Package]) -> str:
    """Return a line for each package: its rooms, floors, arrows and circles."""
    lines = [f"{'package':40} {'rooms':>6} {'floors':>7} {'arrows':>7} {'circles':>8}"]
    for package in packages:
        floors = assign_floors(package.arrows)
        height = max(floors.values(), default=-1) + 1
        circles = len(find_circles(package.arrows))
        lines.append(
            f"{package.name:40} {len(package.arrows):6} {height:7} {package.count:7} {circles:8}"
        )
    return "\n".join(lines) + "\n"


def format_drawing(package: Package) -> str:
    """Return the floors of a package from the top down, each room with those that it imports."""
    floors = assign_floors(package.arrows)
    lines = [package.name]
    for room in sorted(package.arrows, key=lambda name: (-floors[name], name)):
        name = _shorten_name(room)
        below = " ".join(sorted(_shorten_name(other) for other in package.arrows[room]))
        lines.append(f"  {floors[room]:2}  {name:22} {'-> ' + below if below else ''}".rstrip())
    for circle in find_circles(package.arrows):
        lines.append("  circle: " + " ".join(sorted(_shorten_name(room) for room in circle)))
    return "\n".join(lines) + "\n"


def _shorten_name(name: str) -> str:
    return name.rpartition(".")[2]


def main() -> int:
    """Print the packages, or draw those that are named; 1 if one of them has a circle."""
    parser = argparse.ArgumentParser(description="The import graph as rooms and floors.")
    parser.add_argument(
        "packages", nargs="*", metavar="PACKAGE", help="draw these, as icdc_spark.diff"
    )
    parser.add_argument("--at", metavar="COMMIT", help="draw this commit, not the working tree")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        root = stack.enter_context(unpack_commit(arguments.at))[0] if arguments.at else ROOT
        graph = build_graph(root)
    packages = [map_package(graph, name) for name in arguments.packages or list_packages(graph)]
    if arguments.packages:
        sys.stdout.write("\n".join(format_drawing(package) for package in packages))
    else:
        sys.stdout.write(format_summary(packages))
    return 1 if any(find_circles(package.arrows) for package in packages) else 0


if __name__ == "__main__":
    sys.exit(main())
