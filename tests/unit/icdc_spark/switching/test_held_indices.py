"""What a deletion does with indices of which a snapshot is being taken."""

from typing import Any

import pytest

from icdc_api.errors import TargetUnavailable
from icdc_spark.replication import deletion
from icdc_spark.replication.context import TableContext
from icdc_testing.simulation.model.target import ModelTarget, answer_error
from icdc_testing.target.modelled import DEAD_LETTERS
from icdc_testing.target.replaced_indices import FIRST, SECOND, THIRD

pytestmark = pytest.mark.unit


def test_dead_letters_that_a_snapshot_holds_are_asked_for_once_and_named_with_the_rest(
    target: ModelTarget, context: TableContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle, asked = target.handle, list[str]()

    def refuse(method: str, path: str, *rest: Any) -> Any:
        name = path.strip("/")
        if method == "DELETE":
            asked.append(name)
            if name in (SECOND, DEAD_LETTERS):
                return answer_error(400, "snapshot_in_progress_exception")
        return handle(method, path, *rest)

    monkeypatch.setattr(target, "handle", refuse)
    said = f"^{SECOND}, {DEAD_LETTERS} cannot be deleted before the end of a snapshot of them$"
    with pytest.raises(TargetUnavailable, match=said):
        deletion._delete_indices(context, None)
    assert asked == [FIRST, SECOND, THIRD, DEAD_LETTERS]
    assert sorted(target.indices) == [SECOND, DEAD_LETTERS]
