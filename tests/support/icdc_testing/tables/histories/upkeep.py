"""Maintain a table as its owner does: compactions, rollbacks, expired snapshots, branches."""

from dataclasses import replace

from icdc_spark.iceberg.table.tables import MAIN
from icdc_testing.lake.java.files import make_constant
from icdc_testing.tables.histories.history import State, TableHistory, list_rows
from icdc_testing.tables.histories.rows import Description, copy_on_write, insert, merge_on_read

_BRANCH = "side"


def compact(history: TableHistory) -> Description:
    """Rewrite files without their deleted rows, under the current spec."""
    old = history.draw_files(most=4)
    if not old:
        return None
    keeps = history.keeps_lineage()
    rows = history.list_live_rows(old)
    # As a sort order would do it: positions before and after have nothing in common.
    history.rng.shuffle(rows)
    new = history.files.write_data(rows, history.columns, keep_lineage=keeps)
    update = history.java.newRewrite().validateFromSnapshot(history.head)
    for stored in old:
        update = update.deleteFile(stored.java)
    for stored in new:
        update = update.addFile(stored.java)
    if history.version >= 2 and history.rng.random() < 0.5:
        sequence = history.java.snapshot(history.head).sequenceNumber()
        # Equality deletes that are committed meanwhile then still apply to the rewritten rows.
        update = update.dataSequenceNumber(sequence)
    history.commit(update, deleted=old, new=new)
    return f"compact {len(old)} files into {len(new)}, keeps lineage: {keeps}"


def rewrite_deletes(history: TableHistory) -> Description:
    """Replace the delete files of data files by one for each, of the newest kind."""
    chosen = [stored for stored in history.live.values() if stored.own_deletes]
    if not chosen:
        return None
    positions = {stored.location: (stored, sorted(stored.marked)) for stored in chosen}
    if history.version >= 3:
        made = history.files.write_vectors(positions)
    else:
        made = {
            path: history.files.write_position_deletes([stored], [mine])
            for path, (stored, mine) in positions.items()
        }
    update = history.java.newRewrite().validateFromSnapshot(history.head)
    for stored in chosen:
        for old in stored.own_deletes:
            update = update.deleteFile(old)
        update = update.addFile(made[stored.location])
    changed = [replace(stored, own_deletes=(made[stored.location],)) for stored in chosen]
    history.commit(update, changed=changed)
    return f"rewrite the deletes of {len(chosen)} files"


def rewrite_manifests(history: TableHistory) -> Description:
    """Put all files into one manifest for each spec."""
    together = make_constant(history.table.bridge, "together")
    history.commit(history.java.rewriteManifests().clusterBy(together))
    return "rewrite manifests"


def roll_back(history: TableHistory) -> Description:
    """Set any retained snapshot as the current one, also one of an abandoned line."""
    target = history.rng.choice(list(history.states))
    history.java.manageSnapshots().setCurrentSnapshot(target).commit()
    history.record_state(history.states[target])
    return f"set current snapshot {target}"


def expire(history: TableHistory) -> Description:
    """Expire some snapshots and remove their files."""
    old = [snapshot_id for snapshot_id in history.states if snapshot_id != history.head]
    chosen = [snapshot_id for snapshot_id in old if history.rng.random() < 0.3]
    # Two earlier snapshots are left, so that there are pairs to compare.
    if not chosen or len(old) - len(chosen) < 2:
        return None
    update = history.java.expireSnapshots()
    for snapshot_id in chosen:
        update = update.expireSnapshotId(snapshot_id)
        del history.states[snapshot_id]
    update.cleanExpiredFiles(True).commit()
    return f"expire {chosen}"


def commit_to_branch(history: TableHistory) -> Description:
    """Commit to a branch, now and then to main as well, and end the branch in one of four ways."""
    start, before = history.head, history.live
    history.java.manageSnapshots().createBranch(_BRANCH, start).commit()
    history.branch = _BRANCH
    said = [insert(history)]
    first, staged = history.head, history.live
    if history.rng.random() < 0.5:
        history.begin()
        said.append(merge_on_read(history) or copy_on_write(history))
    tip, work = history.head, history.live
    history.branch, history.live = MAIN, before
    if history.rng.random() < 0.5:
        history.begin()
        said.append(f"on main {insert(history)}")
    ends = {"abandon": None, "replace": (tip, work)}
    # Only a main that did not move can be fast-forwarded.
    if history.head == start:
        ends["fast-forward"] = (tip, work)
    end = history.rng.choice([*ends, "cherry-pick"])
    if end == "cherry-pick":
        said.append(_cherry_pick(history, first, start, before, staged))
    elif end == "abandon":
        said.append(end)
    else:
        _move_main(history, end)
        history.record_state(work)
        said.append(end)
    history.java.manageSnapshots().removeBranch(_BRANCH).commit()
    return f"branch: {'; '.join(map(str, said))}"


def _move_main(history: TableHistory, how: str) -> None:
    change = history.java.manageSnapshots()
    move = change.replaceBranch if how == "replace" else change.fastForwardBranch
    move(MAIN, _BRANCH).commit()


def _cherry_pick(
    history: TableHistory,
    picked: int,
    start: int,
    before: State,
    staged: State,
) -> str:
    """Cherry-pick an append of the branch to main, unless a key would then be there twice."""
    new = {path: stored for path, stored in staged.items() if path not in before}
    column = history.key_column.id
    taken = {cells.get(column) for cells in list_rows(history.live)}
    if taken & {cells.get(column) for cells in list_rows(new)}:
        return "abandon"
    history.java.manageSnapshots().cherrypick(picked).commit()
    history.record_state({**history.live, **new})
    return f"cherry-pick {picked} from {start}"
