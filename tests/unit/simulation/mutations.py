"""Guards of the product that worlds must miss: each is taken out of a copy, and found by seeds."""

from dataclasses import dataclass

from mutants.edits import Edit

_EXPORT = "sparkapps/icdc_spark/replication/export.py"
_NEXT = "sparkapps/icdc_spark/protocol/next_step.py"
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
        "an export that miscounts is repeated without end",
        range(1, 11),
        _EXPORT,
        "        if miscount:\n            return _begin_anew(work, stored, step, len(chunks), "
        "miscount)\n",
        "        if miscount:\n            raise RuntimeError(miscount)\n",
    ),
    _edit(
        "a request without its mode is taken for a new one",
        range(1, 11),
        _RESYNCS,
        "    if recorded is not None and not is_new(status, spec):\n        return recorded\n",
        "",
    ),
    _edit(
        "a nonce that was honoured before is not honoured again",
        range(1, 11),
        _NEXT,
        "        return state.resync_id != self.resync_id\n",
        "        return self.resync_nonce > state.resync_nonce\n",
    ),
)
