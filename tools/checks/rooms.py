"""Prints the import graph as rooms and floors, from the data that the import contracts check.

A place is a package; its rooms are the packages and modules directly in it. An arrow leads from a
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
from dataclasses import dataclass

import grimp

PACKAGES = ("icdc_api", "icdc_cli", "icdc_operator", "icdc_spark")
HOUSE = "the house"
"""The place whose rooms are the packages themselves."""

Arrows = Mapping[str, frozenset[str]]
"""The rooms that each room imports."""


@dataclass(frozen=True)
class Place:
    """The rooms of one package and how they import each other."""

    name: str
    arrows: Arrows
    """Every room is a key."""

    @property
    def count(self) -> int:
        """Number of arrows."""
        return sum(len(imported) for imported in self.arrows.values())


def find_circles(arrows: Arrows) -> list[frozenset[str]]:
    """Return the sets of two or more rooms of which each is reached from every other."""
    reached = {room: _reach(arrows, room) for room in arrows}
    circles = {
        frozenset(other for other in reached[room] if room in reached[other])
        for room in arrows
        if room in reached[room]
    }
    return sorted(circles, key=sorted)


def _reach(arrows: Arrows, room: str) -> set[str]:
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

    def floor(room: str) -> int:
        if room not in floors:
            circle = circle_of.get(room, frozenset({room}))
            below = {other for member in circle for other in arrows[member]} - circle
            # Set for the whole circle at once, so that none of its rooms waits for another.
            level = max((floor(other) + 1 for other in below), default=0)
            floors.update(dict.fromkeys(circle, level))
        return floors[room]

    for room in sorted(arrows):
        floor(room)
    return floors


def map_place(graph: grimp.ImportGraph, package: str) -> Place:
    """Return the rooms of a package and their arrows; of no package, the packages themselves."""
    rooms = frozenset(PACKAGES) if package == HOUSE else graph.find_children(package)
    arrows = {
        room: frozenset(
            other
            for other in rooms - {room}
            if graph.direct_import_exists(importer=room, imported=other, as_packages=True)
        )
        for room in rooms
    }
    return Place(package, arrows)


def list_places(graph: grimp.ImportGraph) -> list[str]:
    """Return the house, then every package that has rooms, each before what is in it."""
    return [HOUSE, *sorted(name for name in graph.modules if graph.find_children(name))]


def summary(places: Iterable[Place]) -> str:
    """Return a line for each place: its rooms, floors, arrows and circles."""
    lines = [f"{'place':40} {'rooms':>6} {'floors':>7} {'arrows':>7} {'circles':>8}"]
    for place in places:
        floors = assign_floors(place.arrows)
        height = max(floors.values(), default=-1) + 1
        circles = len(find_circles(place.arrows))
        lines.append(
            f"{place.name:40} {len(place.arrows):6} {height:7} {place.count:7} {circles:8}"
        )
    return "\n".join(lines) + "\n"


def drawing(place: Place) -> str:
    """Return the floors of a place from the top down, each room with the rooms that it imports."""
    floors = assign_floors(place.arrows)
    lines = [place.name]
    for room in sorted(place.arrows, key=lambda name: (-floors[name], name)):
        below = " ".join(sorted(_last(other) for other in place.arrows[room]))
        lines.append(
            f"  {floors[room]:2}  {_last(room):22} {'-> ' + below if below else ''}".rstrip()
        )
    for circle in find_circles(place.arrows):
        lines.append("  circle: " + " ".join(sorted(_last(room) for room in circle)))
    return "\n".join(lines) + "\n"


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def main() -> int:
    """Print the places, or draw those that are named; 1 if one of them has a circle."""
    parser = argparse.ArgumentParser(description="The import graph as rooms and floors.")
    parser.add_argument(
        "places", nargs="*", metavar="PACKAGE", help="draw these, as icdc_spark.diff"
    )
    arguments = parser.parse_args()
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    places = [map_place(graph, name) for name in arguments.places or list_places(graph)]
    if arguments.places:
        sys.stdout.write("\n".join(drawing(place) for place in places))
    else:
        sys.stdout.write(summary(places))
    return 1 if any(find_circles(place.arrows) for place in places) else 0


if __name__ == "__main__":
    sys.exit(main())
