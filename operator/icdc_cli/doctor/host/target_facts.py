"""Ask OpenSearch what `icdc doctor -f` has to know, as a run would connect to it.

Changes nothing there: what it sends are reads, and the requests of `probes`. Nothing is repeated,
as the answer is for a person who waits.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icdc_api import naming
from icdc_api.errors import BadSpec, IcdcError, Submission
from icdc_api.spec.pipeline import PipelineSpec
from icdc_cli.doctor.host.probes import list_probes
from icdc_cli.doctor.host.target_checks import RawReply, Read, Right, TargetFacts, is_serverless

if TYPE_CHECKING:
    from icdc_spark.opensearch.client.connection import Client

REQUEST_SECONDS = 20.0
"""How long one request may take."""

MAX_INDICES = 5
"""Tables whose indices are asked about, each by some twenty requests; roles have patterns."""


def read_target(spec: PipelineSpec, secrets_dir: Path | None) -> TargetFacts:
    """Return what `spec.sink.opensearch` answers, errors included."""
    sink = spec.sink.opensearch
    facts = TargetFacts(hosts=tuple(sink.hosts))
    if sink.embedded:
        return facts
    try:
        # Here and not above: the extra `cli` has no client of OpenSearch.
        from icdc_spark.opensearch.client import connection
    except ImportError as error:
        text = f"the Python library for OpenSearch is not installed ({error.name})"
        return replace(facts, root=Submission(text))
    try:
        wanted = replace(connection.from_spec(sink, secrets_dir), timeout=REQUEST_SECONDS)
    except BadSpec as error:
        return replace(facts, root=error)
    except IcdcError:
        return facts  # a Secret, of which `host_checks` says more
    try:
        service = wanted.aws_service if wanted.aws_region else None
        facts = replace(facts, aws_service=service, secret=wanted.secret)
        client = connection.open_client(wanted)
    except IcdcError as error:
        return replace(facts, root=error)
    try:
        return _ask_all(client, facts, [table.index_name for table in spec.tables])
    finally:
        client.close()


def _ask_all(client: "Client", facts: TargetFacts, indices: list[str]) -> TargetFacts:
    facts = replace(facts, root=_ask(client, "GET", "/"))
    root = facts.root
    # Another server would only answer nonsense, or write it into its log.
    if not isinstance(root, RawReply) or root.status not in (200, 403) or is_serverless(facts):
        return facts
    patterns = ",".join([naming.STATE_INDEX, *(f"{i},{i}-*" for i in indices[:MAX_INDICES])])
    # An index that is not there yet must not fail the question about the others.
    query = "flat_settings=true&ignore_unavailable=true&allow_no_indices=true"
    facts = replace(
        facts,
        login=_ask(client, "GET", "/_plugins/_security/authinfo"),
        health=_ask(client, "GET", "/_cluster/health?timeout=5s"),
        disks=_ask(client, "GET", "/_cat/allocation?format=json&h=node,disk.percent"),
        settings=_ask(client, "GET", f"/{patterns}/_settings/index.blocks.*?{query}"),
    )
    has_plugin = isinstance(facts.login, RawReply) and facts.login.status == 200
    return replace(facts, rights=_ask_rights(client, indices)) if has_plugin else facts


def _ask_rights(client: "Client", indices: list[str]) -> Mapping[Right, Read]:
    probes = list_probes(indices[:MAX_INDICES], secrets.token_hex(4))
    return {
        probe.right: _ask(client, probe.method, probe.path, probe.body) if probe.method else None
        for probe in probes
    }


def _ask(client: "Client", method: str, path: str, body: Any = None) -> Read:
    from icdc_spark.opensearch.client.foreign_answers import EVERY_STATUS
    from icdc_spark.opensearch.client.target_errors import translate_errors

    sent = body if body is None or isinstance(body, str) else json.dumps(body)
    try:
        with translate_errors(client.connection):
            # Below the transport, which would raise for each status that is an answer here.
            status, _, text = client.transport.get_connection().perform_request(
                method,
                path,
                body=None if sent is None else sent.encode(),
                headers={"content-type": "application/json"},
                ignore=EVERY_STATUS,
            )
    except IcdcError as error:
        return error
    try:
        return RawReply(status, json.loads(text))
    except ValueError:
        return RawReply(status, text)
