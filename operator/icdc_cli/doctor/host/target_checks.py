"""Check what runs need of OpenSearch: the right server, a login, a role, healthy disks. Pure.

Everything comes as `target_facts` read it. A right is judged by the answer to a harmless request:
the security plugin refuses before it executes, and names the permission that is missing.

    DELETE /orders-icdc-doctor-5f1c    404 index_not_found_exception    granted
                                       403 no permissions for […]       missing
                                       503, or none                     not checked
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from icdc_api.errors import IcdcError, PassingError
from icdc_cli.doctor.findings import Finding, blame, blame_server, confirm, skip, warn

OLDEST = (2, 19)
"""The oldest release that is tested; see the README."""

ROLE = "docs/opensearch-role.md"
_LOW_PERCENT, _FLOOD_PERCENT = 85, 95
"""OpenSearch's defaults of the low and the flood-stage watermark: above the first it puts
no shard on a node, above the second it makes the indices there read-only."""
# OpenSearch itself sets read_only_allow_delete, once a disk passes the flood stage.
_BLOCKS = re.compile(r"\bblocks\.(read_only|read_only_allow_delete|write|metadata|create_index)$")


@dataclass(frozen=True)
class RawReply:
    """The answer to one request, whatever its status."""

    status: int
    """Of HTTP."""
    body: Any = None
    """Parsed JSON; text where it is none."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """The body, if it is an object; else nothing."""
        return self.body if isinstance(self.body, dict) else {}


@dataclass(frozen=True)
class Right:
    """One permission of docs/opensearch-role.json."""

    action: str
    """Such as indices:admin/create."""
    pattern: str = ""
    """The pattern of indices for which it is needed; empty: for the cluster."""


Read = RawReply | IcdcError | None
"""An answer, why there is none, or None where nothing was asked."""


@dataclass(frozen=True)
class TargetFacts:
    """What was read of `spec.sink.opensearch`."""

    hosts: tuple[str, ...]
    """URLs; the word `embedded` for a node that `icdc run` starts."""
    aws_service: str | None = None
    """Name of the AWS service for which requests are signed; None if they are not."""
    secret: str | None = None
    """Name of the Secret with the credentials."""
    root: Read = None
    """Of GET /."""
    login: Read = None
    """Of the security plugin's `authinfo`."""
    rights: Mapping[Right, Read] = field(default_factory=dict)
    """The reply to the request that needs a permission; None for one without a harmless request."""
    health: Read = None
    """Of GET /_cluster/health."""
    disks: Read = None
    """Of GET /_cat/allocation."""
    settings: Read = None
    """Of the indices' settings, flat."""


Check = Callable[[TargetFacts], Iterator[Finding]]


def check_kind(facts: TargetFacts) -> Iterator[Finding]:
    """Judge whether it answers, and what it is. Yields nothing but problems, or one Ok."""
    where = f"OpenSearch at {', '.join(facts.hosts)}"
    # Before any answer: no version, login or permission would make it a target.
    if is_serverless(facts):
        yield blame(
            where,
            "Amazon OpenSearch Serverless is not supported: it has neither external versions nor "
            "the Tasks API",
            "edit spec.sink.opensearch: a domain of Amazon OpenSearch Service, or OpenSearch",
        )
    elif facts.root is None or isinstance(facts.root, IcdcError):
        yield _judge_silence(where, facts.root)
    elif facts.root.status == 401:
        secret = f"the Secret {facts.secret}" if facts.secret else "a Secret in credentialsFrom"
        yield blame(
            where,
            "does not accept the credentials (401)",
            f"put the user name and password that OpenSearch knows into {secret}",
        )
    # The root needs a permission that runs do not: then the version is not known.
    elif facts.root.status == 403:
        yield skip(where, "the version may not be read (403)", "ask for cluster:monitor/main")
    elif facts.root.status != 200:
        cure = f"curl {facts.hosts[0]}"
        # The node starts, or a proxy before it fails; 4xx is the same when it is asked again.
        may_pass = facts.root.status >= 500
        yield blame_server(where, f"answered {facts.root.status}", cure, may_pass=may_pass)
    else:
        yield _judge_version(where, facts.root.fields.get("version") or {})


def is_serverless(facts: TargetFacts) -> bool:
    """Return whether the hosts are collections of Amazon OpenSearch Serverless."""
    names = (urlsplit(host).hostname or "" for host in facts.hosts)
    return facts.aws_service == "aoss" or any(
        name.endswith((".aoss.amazonaws.com", ".aoss.amazonaws.com.cn")) for name in names
    )


def _judge_silence(where: str, error: IcdcError | None) -> Finding:
    if error is None:
        return skip(where, "nothing was asked, see the problems above")
    host = urlsplit(where.partition(" at ")[2].partition(",")[0])
    cure = f"curl -v {host.geturl()}  # from this host; check name, port, proxy and certificate"
    return blame_server(where, error.message, cure, may_pass=isinstance(error, PassingError))


def _judge_version(where: str, version: Mapping[str, Any]) -> Finding:
    number = str(version.get("number", ""))
    # Elasticsearch has no such field.
    if version.get("distribution") != "opensearch":
        text = f"is not OpenSearch, but says version {number or 'unknown'}: Elasticsearch?"
        return blame(where, text, "edit spec.sink.opensearch.hosts: OpenSearch 2.19 or newer")
    product = f"OpenSearch {number}"
    release = tuple(int(part) for part in re.findall(r"\d+", number)[:2])
    # With compatibility.override_main_response_version the root says 7.10.2 in every release.
    if release >= (7, 10):
        text = f"{product}: it disguises itself as Elasticsearch"
        cure = "PUT _cluster/settings {persistent: {compatibility.override_main_response_version: "
        return warn(where, text, f"{cure}false}}}}")
    if release < OLDEST:
        cure = "upgrade it to 2.19 or newer"
        return warn(where, f"{product} is older than what is tested (2.19 and 3)", cure)
    return confirm(where, product)


def check_rights(facts: TargetFacts) -> Iterator[Finding]:
    """Judge the login and each permission of the documented role, where the plugin is there."""
    check = "OpenSearch user"
    login = facts.login
    if login is None or isinstance(login, IcdcError):
        return  # `check_kind` has said why nothing answers
    if login.status in (400, 404, 405):
        yield skip(check, "no security plugin: there are no permissions to check")
        return
    if login.status != 200:
        yield skip(check, f"the security plugin answered {login.status}")
        return
    name, roles = login.fields.get("user_name"), login.fields.get("roles") or []
    yield confirm(check, f"{name} with the roles {', '.join(map(str, roles)) or 'none'}")
    denied = [right for right, read in facts.rights.items() if is_denied(read)]
    for right in denied:
        scope = f"for the indices {right.pattern}" if right.pattern else "for the cluster"
        yield blame(
            f"permission {right.action}",
            f"{name} does not have it {scope}",
            f"add {right.action} to a role of {name} {scope}; the whole role is in {ROLE}",
        )
    unknown = [
        right.action for right, read in facts.rights.items() if not isinstance(read, RawReply)
    ]
    granted = len(facts.rights) - len(denied) - len(unknown)
    if granted and not denied:
        yield confirm("permissions in OpenSearch", f"{granted} of {len(facts.rights)} are granted")
    if unknown:
        text = f"no harmless request needs {', '.join(sorted(set(unknown)))}"
        yield skip("permissions in OpenSearch", text, f"compare the role with {ROLE}")


def is_denied(read: Read) -> bool:
    """Return whether the security plugin refused; a block of an index has 403 too, and is none."""
    if not isinstance(read, RawReply) or read.status != 403:
        return False
    error = read.fields.get("error")
    kind = error.get("type") if isinstance(error, dict) else None
    return kind in (None, "security_exception")


def check_health(facts: TargetFacts) -> Iterator[Finding]:
    """Judge the health of the cluster."""
    check = "OpenSearch health"
    if not isinstance(facts.health, RawReply):
        return
    status = facts.health.fields.get("status")
    cure = f"curl {facts.hosts[0]}/_cluster/allocation/explain"
    if facts.health.status != 200 or status is None:
        yield skip(check, f"may not be read ({facts.health.status})")
    elif status == "red":
        yield blame(check, "red: shards of some index are missing", cure)
    elif status == "yellow":
        yield warn(check, "yellow: copies of some shards are missing", cure)
    else:
        yield confirm(check, str(status))


def check_disks(facts: TargetFacts) -> Iterator[Finding]:
    """Judge the disks of the nodes by OpenSearch's default watermarks."""
    check = "OpenSearch disks"
    if not isinstance(facts.disks, RawReply):
        return
    if facts.disks.status != 200 or not isinstance(facts.disks.body, list):
        command = f"curl {facts.hosts[0]}/_cat/allocation"
        yield skip(check, f"may not be read ({facts.disks.status})", command)
        return
    # The row of unassigned shards has no disk, so no percentage.
    used = {
        str(row.get("node")): int(percent)
        for row in facts.disks.body
        if isinstance(row, dict) and str(percent := row.get("disk.percent") or "").isdecimal()
    }
    full = {node: percent for node, percent in used.items() if percent >= _LOW_PERCENT}
    for node, percent in sorted(full.items()):
        # Between the two marks only new shards find no room on the node.
        judge = blame if percent >= _FLOOD_PERCENT else warn
        text = f"{percent} % are used: above {_FLOOD_PERCENT} % indices are made read-only"
        yield judge(f"disk of the node {node}", text, "free or add disk space on the node")
    if used and not full:
        yield confirm(check, f"at most {max(used.values())} % are used")


def check_blocks(facts: TargetFacts) -> Iterator[Finding]:
    """Judge the blocks that refuse writes."""
    check = "blocks of indices"
    if not isinstance(facts.settings, RawReply) or facts.settings.status == 404:
        return
    if facts.settings.status != 200:
        yield skip(check, f"the settings may not be read ({facts.settings.status})")
        return
    blocked = {
        index: names
        for index, entry in sorted(facts.settings.fields.items())
        if (names := list_blocks(entry.get("settings") or {}))
    }
    for index, names in blocked.items():
        put = f"curl -X PUT {facts.hosts[0]}/{index}/_settings -H content-type:application/json"
        # One at a time, and those first that refuse the request for another one.
        ordered = sorted(names, key=lambda name: ("read_only" not in name, name))
        unset = " && ".join(f"{put} -d '{{\"{name}\": null}}'" for name in ordered)
        yield blame(
            f"blocks of the index {index}",
            f"{', '.join(names)} refuses writes",
            f"{unset}  # after its cause, such as a full disk, was removed",
        )
    if not blocked:
        yield confirm(check, "none")


def list_blocks(settings: Mapping[str, Any]) -> Sequence[str]:
    """Return the names of the blocks that are set, from flat settings."""
    # Settings come back as texts, whatever type they were set with.
    return [name for name, on in settings.items() if _BLOCKS.search(name) and str(on) == "true"]


CHECKS: tuple[Check, ...] = (check_kind, check_rights, check_health, check_disks, check_blocks)


def list_findings(facts: TargetFacts) -> Iterator[Finding]:
    """Yield the findings of every check."""
    if facts.hosts == ("embedded",):
        yield confirm("OpenSearch", "embedded: icdc run starts a node on this host")
        return
    for check in CHECKS:
        yield from check(facts)
