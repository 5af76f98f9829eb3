"""What ServiceAccounts asked an API server for, by its own audit log.

Knows the form of the log; judges nothing.
"""

import json
from pathlib import Path

from icdc_testing.kube.kubectl import write_private
from icdc_testing.kube.rights import Right

_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: Metadata, userGroups: [system:serviceaccounts]}
  - {level: None}
"""


def build_flags(log: Path) -> list[str]:
    """Return flags of an API server that keeps the log."""
    policy = write_private(log.with_suffix(".policy.yaml"), _POLICY)
    return [f"--audit-policy-file={policy}", f"--audit-log-path={log}"]


def read_requests(log: Path, namespace: str, account: str) -> dict[Right, set[int]]:
    """Return the requests of the ServiceAccount, with the statuses of the answers."""
    requests: dict[Right, set[int]] = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        target = event.get("objectRef")
        if event["user"]["username"] != f"system:serviceaccount:{namespace}:{account}":
            continue
        if target is None:
            continue  # no resource, such as /version
        below = target.get("subresource")
        resource = target["resource"] + (f"/{below}" if below else "")
        right = (target.get("apiGroup", ""), resource, event["verb"])
        requests.setdefault(right, set()).add(event["responseStatus"]["code"])
    return requests
