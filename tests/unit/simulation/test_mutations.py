"""Worlds notice when a guard is taken out of the product; with all guards the same worlds hold."""

import subprocess
from pathlib import Path

import pytest

from icdc_testing.mutants.source_tree import SourceTree

from .child import play
from .mutations import MUTATIONS, Mutation

pytestmark = [pytest.mark.unit, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> SourceTree:
    folder: Path = tmp_path_factory.mktemp("simulated")
    return SourceTree(folder)


def play_in(tree: SourceTree, seeds: list[int]) -> subprocess.CompletedProcess[str]:
    return play("--find", "--seeds", *map(str, seeds), environment=tree.build_environment())


@pytest.mark.sampled
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_guard_that_is_taken_out_is_found_within_a_few_worlds(
    tree: SourceTree, mutation: Mutation
) -> None:
    with tree.hold_edits(mutation.edits):
        played = play_in(tree, list(mutation.seeds))
    assert played.returncode == 1, played.stdout + played.stderr
    assert played.stdout.startswith("world "), played.stdout + played.stderr


def test_with_all_guards_the_same_worlds_hold(tree: SourceTree) -> None:
    seeds = sorted({seed for mutation in MUTATIONS for seed in mutation.seeds})
    played = play_in(tree, seeds)
    assert played.returncode == 0, played.stdout + played.stderr
