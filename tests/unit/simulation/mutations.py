"""Guards of the product that worlds must miss: each is taken out of a copy, and found by seeds."""

from dataclasses import dataclass

from icdc_testing.mutants.edits import Edit

_EXPORT = "sparkapps/icdc_spark/replication/export.py"
_POLICIES = "sparkapps/icdc_spark/protocol/policies.py"
_CONTEXT = "sparkapps/icdc_spark/replication/context.py"
_SWAP = "sparkapps/icdc_spark/replication/export_swap.py"
_WATCH = "sparkapps/icdc_spark/opensearch/bulk/owner_watch.py"
_TARGET_ERRORS = "sparkapps/icdc_spark/opensearch/client/target_errors.py"
_INDEX_CHECK = "sparkapps/icdc_spark/replication/checks/index_check.py"
_RESYNCS = "operator/icdc_operator/core/asked/resyncs.py"


@dataclass(frozen=True)
class Mutation:
    """One guard that is taken out."""

    name: str
    """What the product does without it, in words."""
    seeds: range
    """Worlds of which one at least finds it, and none of which breaks a promise otherwise."""
    edits: tuple[Edit, ...]


def _edit(name: str, seeds: range, path: str, old: str, new: str) -> Mutation:
    return Mutation(name, seeds, (Edit(path, old, new),))


MUTATIONS = (
    _edit(
        "an export deletes the index that readers use before it has a new one",
        range(1, 21),
        _EXPORT,
        "    mapping = build_index_mapping(work.documents, table_uuid=work.table.uuid)\n",
        "    indices.drop_orphans(client, context.ownership, below=10**6, keep=frozenset(\n"
        "        name for name in (state.index, *state.previous_indices) if name))\n"
        "    mapping = build_index_mapping(work.documents, table_uuid=work.table.uuid)\n",
    ),
    _edit(
        "what an interrupted batch wrote over a loss is not counted",
        range(300129245, 300129250),
        "sparkapps/icdc_spark/replication/changelog.py",
        "        if self.is_repeated:\n",
        "        if False:\n",
    ),
    _edit(
        "an export that miscounts is repeated without end",
        range(10, 20),
        _EXPORT,
        "        if miscount:\n            return _begin_anew(work, stored, step, planned=planned, "
        "miscount=miscount)\n",
        "        if miscount:\n            raise RuntimeError(miscount)\n",
    ),
    _edit(
        "a request without its mode is taken for a new one",
        range(20, 30),
        _RESYNCS,
        "    if recorded is not None and not is_new(status, spec):\n        return recorded\n",
        "",
    ),
    _edit(
        "a nonce that was honoured before is not honoured again",
        range(140, 150),
        _POLICIES,
        "        return state.resync_id != self.resync_id\n",
        "        return self.resync_nonce > state.resync_nonce\n",
    ),
    _edit(
        "an export after the state document was lost takes ordinals that dead letters have",
        range(425, 435),
        _EXPORT,
        "    return max(state.last_ordinal, of_dead_letters) + 1\n",
        "    return state.last_ordinal + 1\n",
    ),
    _edit(
        "a run whose wait for older requests failed does not wait again",
        range(2400, 2420),
        _CONTEXT,
        "        if not self.outwaited.is_set():\n",
        "        if not self.outwaited.is_set():\n            self.outwaited.set()\n",
    ),
    _edit(
        "a task of a replaced run goes on writing",
        range(10, 20),
        _WATCH,
        "            self._ask()\n",
        "",
    ),
    _edit(
        "a task believes that its run owns the index because its driver has just gone on",
        range(4_026_474, 4_026_482),
        _CONTEXT,
        "owned_at=self.store.get_owned_at(self.alias),",
        "owned_at=None,",
    ),
    _edit(
        "a new index takes the name of one that is gone",
        range(715, 725),
        _EXPORT,
        "above=export_swap.find_last_number(context, work.table, state, serving)",
        "above=0",
    ),
    _edit(
        "a rollback forgets the rows that both indices have refused",
        range(818, 822),
        _SWAP,
        'dead_letters.purge_written(context.client, context.ownership, state.index or "")',
        "dead_letters.purge_older(context.client, context.ownership, state.last_ordinal + 1)",
    ),
    _edit(
        "an answer of a busy server is taken for an error of the program, and the step is retried",
        range(26, 34),
        _TARGET_ERRORS,
        "    if passes(status, kind):\n",
        "    if False:\n",
    ),
    _edit(
        "an export is begun though the index of state documents was deleted",
        range(100_000_199, 100_000_200),
        _INDEX_CHECK,
        "    if not store_history:\n",
        "    if False:\n",
    ),
    _edit(
        "a driver that is frozen is waited for",
        range(73, 76),
        "operator/icdc_operator/cluster/runs/renewals.py",
        "given_up=frozen",
        "given_up=False",
    ),
    _edit(
        "an export goes on though its state document was put back from before it",
        range(100_001_272, 100_001_273),
        _EXPORT,
        "    if stored.document.intent is None:\n        return stored",
        "    if False:\n        return stored",
    ),
)
