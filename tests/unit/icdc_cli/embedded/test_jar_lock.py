"""The lock is complete, stable, and refuses what it would not have written."""

import pytest

from icdc_api.errors import Submission
from icdc_cli.embedded import jar_lock, jars

pytestmark = pytest.mark.unit

SUM = "a" * 64


def test_the_committed_lock_holds_every_set_with_its_roots() -> None:
    lock = jar_lock.load()
    assert set(lock) == set(jars.ROOTS)
    for name, roots in jars.ROOTS.items():
        assert set(roots) <= {jar.coordinates for jar in lock[name].jars}


def test_the_committed_lock_is_as_it_would_be_written() -> None:
    lock = jar_lock.load()
    assert jar_lock.parse(jar_lock.render(lock)) == lock


def test_the_key_of_a_set_changes_with_its_jars_only() -> None:
    one = jar_lock.parse(f"a g:x:1 x-1.jar {SUM}\nb g:y:1 y-1.jar {SUM}\n")
    swapped = jar_lock.parse(f"# c\n\nb g:z:2 z-2.jar {SUM}\na g:x:1 x-1.jar {SUM}\n")
    assert one["a"].key == swapped["a"].key
    assert one["b"].key != swapped["b"].key


@pytest.mark.parametrize(
    "line",
    [
        "a g:x:1 x.jar",
        "a g:x x.jar " + SUM,
        "a g:x:1 x.jar abc",
        "<<<<<<< ours",
        f"a g:x:1 x.jar {SUM} more",
    ],
)
def test_a_damaged_line_is_named(line: str) -> None:
    with pytest.raises(Submission, match=r"jars\.lock line 2"):
        jar_lock.parse(f"a g:x:1 x-1.jar {SUM}\n{line}\n")
