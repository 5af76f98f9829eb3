"""What is done to a table without its rows in mind: maintenance, ways back, and branches."""

from dataclasses import replace

from histories.history import History, State, rows_of
from histories.rows import Said, copy_on_write, insert, merge_on_read
from icdc_spark.iceberg.table.tables import MAIN
from icdc_testing.lake.java_files import constant

_BRANCH = "side"


def compact(history: History) -> Said:
    """Rewrites files without their deleted rows, under the current spec."""
    old = history.some_files(most=4)
    if not old:
        return None
    keeps = history.keeps_lineage()
    rows = history.live_rows(old)
    history.rng.shuffle(rows)
    new = history.files.data(rows, history.columns, keep_lineage=keeps)
    update = history.java.newRewrite().validateFromSnapshot(history.head)
    for stored in old:
        update = update.deleteFile(stored.java)
    for stored in new:
        update = update.addFile(stored.java)
    if history.version >= 2 and history.rng.random() < 0.5:
        sequence = history.java.snapshot(history.head).sequenceNumber()
        update = update.dataSequenceNumber(sequence)
    history.commit(update, gone=old, new=new)
    return f"compact {len(old)} files into {len(new)}, keeps lineage: {keeps}"


def rewrite_deletes(history: History) -> Said:
    """Replaces the delete files of data files by one for each, of the newest kind."""
    chosen = [each for each in history.live.values() if each.own_deletes]
    if not chosen:
        return None
    positions = {each.location: (each, sorted(each.marked)) for each in chosen}
    if history.version >= 3:
        made = history.files.vectors(positions)
    else:
        made = {
            place: history.files.position_deletes([each], [mine])
            for place, (each, mine) in positions.items()
        }
    update = history.java.newRewrite().validateFromSnapshot(history.head)
    for each in chosen:
        for old in each.own_deletes:
            update = update.deleteFile(old)
        update = update.addFile(made[each.location])
    changed = [replace(each, own_deletes=(made[each.location],)) for each in chosen]
    history.commit(update, changed=changed)
    return f"rewrite the deletes of {len(chosen)} files"


def rewrite_manifests(history: History) -> Said:
    """Puts all files into one manifest for each spec."""
    together = constant(history.table.bridge, "together")
    history.commit(history.java.rewriteManifests().clusterBy(together))
    return "rewrite manifests"


def rollback(history: History) -> Said:
    """Goes to any retained snapshot, an earlier one or one of an abandoned line."""
    target = history.rng.choice(list(history.states))
    history.java.manageSnapshots().setCurrentSnapshot(target).commit()
    history.landed(history.states[target])
    return f"set current snapshot {target}"


def expire(history: History) -> Said:
    """Expires some snapshots and removes their files."""
    old = [each for each in history.states if each != history.head]
    chosen = [each for each in old if history.rng.random() < 0.3]
    if not chosen or len(old) - len(chosen) < 2:
        return None
    update = history.java.expireSnapshots()
    for each in chosen:
        update = update.expireSnapshotId(each)
        del history.states[each]
    update.cleanExpiredFiles(True).commit()
    return f"expire {chosen}"


def branch(history: History) -> Said:
    """Work on a branch while main goes on or not, and one of four ends of it."""
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
    if history.head == start:
        ends["fast-forward"] = (tip, work)
    end = history.rng.choice([*ends, "cherry-pick"])
    if end == "cherry-pick":
        said.append(_cherry_pick(history, first, start, before, staged))
    elif end == "abandon":
        said.append(end)
    else:
        _move_main(history, end)
        history.landed(work)
        said.append(end)
    history.java.manageSnapshots().removeBranch(_BRANCH).commit()
    return f"branch: {'; '.join(map(str, said))}"


def _move_main(history: History, how: str) -> None:
    change = history.java.manageSnapshots()
    move = change.replaceBranch if how == "replace" else change.fastForwardBranch
    move(MAIN, _BRANCH).commit()


def _cherry_pick(
    history: History,
    picked: int,
    start: int,
    before: State,
    staged: State,
) -> str:
    """Brings an append of the branch to main, unless a key would then be there twice."""
    new = {place: stored for place, stored in staged.items() if place not in before}
    column = history.key_column.id
    taken = {cells.get(column) for cells in rows_of(history.live)}
    if taken & {cells.get(column) for cells in rows_of(new)}:
        return "abandon"
    history.java.manageSnapshots().cherrypick(picked).commit()
    history.landed({**history.live, **new})
    return f"cherry-pick {picked} from {start}"
