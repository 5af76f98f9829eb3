"""Waits until no bulk request of an older batch can still be applied.

An abandoned request goes on inside OpenSearch, and could bring a deleted document back once the
versions of deletions are forgotten. Each request is tagged with an opaque id, which the Tasks API
shows. A gateway may take the tags off, or put its own in their place: then that of the question is
missing as well, and every bulk request to an index of the alias is waited for. A node that was cut
from its peers is not asked, so the answer must name each node that a request may be inside. It must
not know what a batch holds.
"""

import logging
import re
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote

from icdc_api.errors import TargetUnavailable
from icdc_api.naming import DEAD_LETTERS_SUFFIX
from icdc_spark.opensearch.client.connection import Client
from icdc_spark.opensearch.client.target_errors import repeat_passing

LOG = logging.getLogger(__name__)

POLL_SECONDS = 0.25
EMPTY_SECONDS = 1.0
"""Two empty answers this far apart: a received body becomes a task with a small delay."""
PATIENCE_SECONDS = 600.0
"""Longer than any bulk request takes on a node that is still alive."""
ABSENT_SECONDS = 30.0
"""A node that was restarted, or cut off for a moment, is back by then. One that is not is named."""
NODE_SECONDS = 10
"""Seconds that OpenSearch waits for the tasks of one node before it answers without them."""
_LISTING = "cluster:monitor/tasks/lists*"
"""The question itself is a task of every node that is asked, so that the answer names them all."""
QUESTION_TAG = "icdc-question"
"""The tag of the question: where it does not come back, other tags do not reach OpenSearch."""
_UNTAGGED = (
    "the header X-Opaque-Id of requests does not reach OpenSearch, so every bulk request to the "
    "indices is waited for, whoever sent it: let the gateway or proxy before it pass that header"
)


class _Task(NamedTuple):
    """A task of a bulk request, or of the question."""

    tag: str
    """The opaque id of its request; empty without one."""
    description: str
    """What OpenSearch says of it, such as `requests[3], indices[orders-000001]`."""


def build_opaque_id(alias: str, epoch: int, ordinal: int) -> str:
    """Return the tag of every bulk request; ASCII, because it travels in a header."""
    return f"{_build_prefix(alias)}{epoch}/{ordinal}"


def wait_until_quiet(
    client: Client,
    alias: str,
    *,
    below_epoch: int | None = None,
    below_ordinal: int | None = None,
    at_least: float = 0.0,
    patience: float = PATIENCE_SECONDS,
    expected: Collection[str] = (),
) -> frozenset[str]:
    """Return when no bulk task of `alias` older than the given epoch or ordinal is left.

    Without bounds: when none at all is left. `at_least`: seconds during which an older request may
    still begin, so that nothing seen before their end counts. An answer in which a node is missing
    counts as busy: the node that does not answer is the one whose writes are late. `patience` in
    seconds, then TargetUnavailable; the same after the client's own patience when nothing answers.
    `expected`: ids of nodes that such a request may be inside. One that is not in the cluster is
    waited for as well, for ABSENT_SECONDS; those that are still missing then are returned.
    """
    begun = time.monotonic()
    deadline = begun + at_least + patience
    quiet_since: float | None = None
    absent: frozenset[str] = frozenset()
    question = _TaskQuestion(client, alias, below_epoch, below_ordinal)
    while True:
        now = time.monotonic()
        busy, nodes = question.ask()
        before, absent = absent, frozenset(expected) - nodes
        may_return = bool(absent) and now - begun < at_least + ABSENT_SECONDS
        # One that is back was asked once only, so both answers must be without the same nodes.
        if busy or now - begun < at_least or may_return or absent != before:
            # An older request may begin until then, so nothing that was seen before counts.
            quiet_since = None
        elif quiet_since is None:
            # Not enough yet: a request whose body has arrived is not a task for a moment.
            quiet_since = now
        elif now - quiet_since >= EMPTY_SECONDS:
            return absent
        if now > deadline:
            raise TargetUnavailable(
                f"OpenSearch is still busy with an abandoned bulk request for {alias!r} "
                f"after {patience:.0f} s, or one of its nodes does not say what it is doing."
                f"{'' if question.is_tagged else f' Besides, {_UNTAGGED}.'}"
            )
        time.sleep(POLL_SECONDS)


@dataclass
class _TaskQuestion:
    """Which requests are under way, asked again and again.

    Example, epoch 7 has taken over from 6 and waits with `below_epoch` = 7:

        icdc/orders/6/41    busy
        icdc/orders/7/42    not older: ignored
        icdc/parts/6/3      another alias: ignored

    Where tags do not reach OpenSearch, any bulk request to an index of `alias` is busy.
    """

    client: Client
    """The client that it is asked through."""
    alias: str
    """The alias whose requests are meant."""
    below_epoch: int | None
    """As for `wait_until_quiet`."""
    below_ordinal: int | None
    """As for `wait_until_quiet`."""
    is_tagged: bool = True
    """False once its own tag did not come back: then those of requests do not arrive either."""

    def ask(self) -> tuple[bool, frozenset[str]]:
        """Return whether a request may be under way, and the ids of the nodes."""
        tasks, nodes = _list_tasks(self.client)
        if not nodes:
            return True, nodes
        # One answer without it is enough: of several hosts one may be behind a gateway.
        if self.is_tagged and all(task.tag != QUESTION_TAG for task in tasks):
            self.is_tagged = False
            LOG.warning("%s: %s", self.alias, _UNTAGGED)
        return any(map(self._is_older, tasks)), nodes

    def _is_older(self, task: _Task) -> bool:
        if not self.is_tagged and _writes_index_of(self.alias, task.description):
            return True
        return _is_older(task.tag, self.alias, self.below_epoch, self.below_ordinal)


@repeat_passing
def _list_tasks(client: Client) -> tuple[list[_Task], frozenset[str]]:
    """Return the tasks of all bulk requests and of the question, and the ids of the nodes.

    No node is returned where one of them did not say what it runs.
    """
    answer = client.tasks.list(
        params={
            # The star is for tasks of single shards, which outlive the node that took the request.
            "actions": f"indices:data/write/bulk*,{_LISTING}",
            "detailed": "true",
            "timeout": f"{NODE_SECONDS}s",
            # Without it the library takes the server's `timeout` for its own.
            "request_timeout": NODE_SECONDS + 30,
        },
        headers={"x-opaque-id": QUESTION_TAG},
    )
    nodes = answer.get("nodes")
    # A node that does not answer may be the very one that still writes.
    if not isinstance(nodes, dict) or answer.get("node_failures") or answer.get("task_failures"):
        return [], frozenset()
    tasks = [
        _Task(task.get("headers", {}).get("X-Opaque-Id", ""), task.get("description", ""))
        for node in nodes.values()
        for task in node["tasks"].values()
    ]
    return tasks, frozenset(nodes)


def _writes_index_of(alias: str, description: str) -> bool:
    """Return whether a bulk request, or its part for one shard, is for an index of the alias.

    requests[3], indices[orders-000001]
    requests[2], index[orders-000001][0]
    """
    name = rf"{re.escape(alias)}(?:-\d{{6,}}|{DEAD_LETTERS_SUFFIX})"
    return re.search(rf"[\[ ]{name}[\],]", description) is not None


def _is_older(tag: str, alias: str, below_epoch: int | None, below_ordinal: int | None) -> bool:
    prefix = _build_prefix(alias)
    epoch, _, ordinal = tag.removeprefix(prefix).partition("/")
    if not (tag.startswith(prefix) and epoch.isdigit() and ordinal.isdigit()):
        return False
    if below_epoch is None and below_ordinal is None:
        return True
    older_epoch = below_epoch is not None and int(epoch) < below_epoch
    older_ordinal = below_ordinal is not None and int(ordinal) < below_ordinal
    return older_epoch or older_ordinal


def _build_prefix(alias: str) -> str:
    return f"icdc/{quote(alias, safe='')}/"
