"""Which column a name of the spec means that the table has given to no column any more.

What a user gains: a spec that names columns stays right when somebody renames one, and `icdc
doctor` says beforehand what a run will read. Names and ids alone: runs and doctor read schemas
with different libraries.
"""

from collections.abc import Iterable, Mapping


def find_renamed(ids: Mapping[str, int], others: Iterable[Mapping[str, int]]) -> dict[str, str]:
    """Return the columns of a schema that had another name in some of the others, by that name.

    Schemas are given as field ids by path: `a.b` is `b` in the struct `a`.

    others                                schema                    renamed
    name (field 2)                        label (2)                 name is label
    name (2)                              name (9), label (2)       nothing: field 9 has the name
    name (2); name (5), without 2         label (5)                 name is label
    name (2); label (2), name (5)         label (2), title (5)      nothing: both had the name
    """
    others = tuple(others)
    names = {number: name for name, number in ids.items()}
    had: dict[str, set[int]] = {}
    for other in others:
        for name, number in other.items():
            # Nor is it followed where a struct above it has lost its name to another one.
            above = [name[:at] for at, letter in enumerate(name) if letter == "."]
            lost = any(ids.get(one, other[one]) != other[one] for one in above if one in other)
            if name not in ids and not lost:
                had.setdefault(name, set()).add(number)
    # Of columns that were there together nothing says which one had a name last: a schema that is
    # current again has its first number. Of others it is the later one, whose id is higher.
    together = [set(one.values()) for one in (ids, *others)]
    return {
        name: names[max(columns)]
        for name, columns in had.items()
        if max(columns) in names and not any(len(columns & there) > 1 for there in together)
    }
