"""Three OpenSearch nodes that form a cluster, and what befalls them: kills, cuts, moved shards."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from icdc_cli.embedded.launcher import build_launcher
from icdc_cli.embedded.opensearch_node import choose_version
from icdc_testing.target import node_calls
from icdc_testing.target.nodes.member import Member
from icdc_testing.target.nodes.namespaces import Namespaces
from icdc_testing.waiting.wait import wait_until

COUNT = 3
SETTLE_SECONDS = 240.0
_PRIMARY = ("p", "STARTED")


class ThreeNodes:
    """A context manager; every node may be cluster manager and holds data."""

    def __init__(self, folder: Path, *, version: str = "", heap: str = "512m") -> None:
        self._folder, self._heap = folder, heap
        self._version = version or os.environ.get("ICDC_TEST_OPENSEARCH", "auto")
        self._spaces = Namespaces(COUNT)
        self.members: list[Member] = []

    def __enter__(self) -> Self:
        version, jdk = choose_version(self._version, self._folder)
        program = build_launcher(version, jdk)
        spaces = self._spaces.__enter__()
        names = [f"n{number}" for number in range(COUNT)]
        addresses = [spaces.address(number) for number in range(COUNT)]
        try:
            for number, name in enumerate(names):
                member = Member(
                    name,
                    addresses[number],
                    addresses,
                    names,
                    self._folder / name,
                    version,
                    jdk.java,
                    program,
                    spaces.enter(number),
                    self._heap,
                )
                self.members.append(member)
            self.restart()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        for member in self.members:
            member.kill()
        self._spaces.remove()

    def restart(self) -> None:
        """Start every node that is down, let packets through, and wait until all is green."""
        self._spaces.heal()
        down = [member for member in self.members if not member.alive]
        for member in down:
            member.launch()
        with ThreadPoolExecutor(COUNT) as pool:
            list(pool.map(lambda member: member.wait_until_it_answers(), down))
        self.wait_until_settled()

    def wait_until_settled(self, status: str = "green") -> None:
        """Wait until every node sees all three, and every shard is where it belongs."""
        path = f"/_cluster/health?wait_for_status={status}&wait_for_nodes={COUNT}"
        path += "&wait_for_no_relocating_shards=true&timeout=2s"
        wait_until(
            lambda: all(member.ask(path) is not None for member in self.members),
            f"the cluster is {status}",
            seconds=SETTLE_SECONDS,
        )

    def cut(self, member: Member, *peers: Member) -> None:
        """Drop every packet between a node and these peers, or all; all still answer the host."""
        number = self.members.index(member)
        others = {self.members.index(peer) for peer in peers} or set(range(COUNT)) - {number}
        self._spaces.cut(number, others)

    def find_manager(self) -> Member:
        """Return the node that is the cluster manager."""
        (row,) = self.do("GET", "/_cat/cluster_manager?format=json&h=node")["list"]
        return self.find_member(str(row["node"]))

    def read_version(self) -> str:
        """Return the version of OpenSearch."""
        return str(self.do("GET", "/")["version"]["number"])

    def heal(self) -> None:
        """Let every packet through again, and return at once."""
        self._spaces.heal()

    def find_primary(self, member: Member, index: str) -> str | None:
        """Return the name of the node that has the primary, as `member` believes; None if none."""
        rows = member.ask(f"/_cat/shards/{index}?format=json&h=prirep,state,node")
        listed = cast(list[dict[str, str]], rows or [])
        started = [row["node"] for row in listed if (row["prirep"], row["state"]) == _PRIMARY]
        return started[0] if started else None

    def find_holder(self, index: str, *, primary: bool = True) -> Member:
        """Return the node of shard 0's primary, or of a replica."""
        for row in self._list_shards(index):
            if (row["prirep"], row["state"]) == ("p" if primary else "r", "STARTED"):
                return self.find_member(row["node"])
        raise AssertionError(f"no such copy of {index} is started")

    def find_node_without(self, index: str) -> Member:
        """Return a node that holds no copy of the index."""
        taken = {row["node"] for row in self._list_shards(index)}
        return next(member for member in self.members if member.name not in taken)

    def find_other(self, *members: Member) -> Member:
        """Return a node that lives and is none of these."""
        return next(one for one in self.members if one.alive and one not in members)

    def find_member(self, name: str) -> Member:
        """Return the node of that name."""
        return next(member for member in self.members if member.name == name)

    def do(
        self, method: str, path: str, body: object = None, *, through: Member | None = None
    ) -> dict[str, Any]:
        """Send a request to a node that lives, or to this one; fail unless it answers 200."""
        answer = node_calls.call((through or self.find_other()).url, method, path, body)
        assert answer.status == 200, answer.body
        return answer.json

    def reroute(self, command: str, index: str, **fields: object) -> None:
        """Move or allocate shard 0 of an index, as an administrator would."""
        body = {"commands": [{command: {"index": index, "shard": 0, **fields}}]}
        self.do("POST", "/_cluster/reroute", body)

    def _list_shards(self, index: str) -> list[dict[str, str]]:
        listed = self.do("GET", f"/_cat/shards/{index}?format=json&h=index,shard,prirep,state,node")
        return cast(list[dict[str, str]], listed["list"])
