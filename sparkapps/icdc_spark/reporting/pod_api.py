"""Speaks to the Kubernetes API, as the only module of the application: one patch of one pod.

Errors of the client library become text here, since none of them ends a run. Must not know reports.
Imported in pods alone.
"""

import json
from collections.abc import Callable
from typing import Any

from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException, load_incluster_config
from urllib3.exceptions import HTTPError

from icdc_api.job.report_text import ANNOTATION_REPORT

MAX_SHOWN_TEXT = 300
"""Characters of an answer that are put into a log line."""

# One annotation is set and nothing else of the pod: a merge patch needs no resource version.
_MERGE_PATCH = "application/merge-patch+json"


def load_own_account() -> Configuration:
    """Return the access of the pod's service account; raises ConfigException or OSError."""
    configuration = Configuration()
    load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    return configuration


class OwnPod:
    """The pod that this process runs in. Not for two threads."""

    def __init__(
        self, namespace: str, name: str, configure: Callable[[], Configuration] = load_own_account
    ) -> None:
        self._namespace = namespace
        self._name = name
        self._configure = configure
        # Not CoreV1Api: it loads a class for each kind of object, which the image does not have.
        self._api: ApiClient | None = None

    def annotate(self, text: str, seconds: float) -> str | None:
        """Write the report's annotation within `seconds`; return why that failed, None if not."""
        patch = {"metadata": {"annotations": {ANNOTATION_REPORT: text}}}
        try:
            status, reason, body = self._patch(patch, seconds)
        except ApiException as error:  # the connection was not made safe: no answer
            return _shorten(f"{error.status} {error.reason or ''}")
        except (ConfigException, HTTPError, OSError) as error:
            return _shorten(f"{type(error).__name__}: {error}")
        if 200 <= status <= 299:
            return None  # the pod in the answer is not read
        return _shorten(f"{status} {reason or ''} {_parse_message(body)}")

    def _patch(self, patch: dict[str, Any], seconds: float) -> tuple[int, str | None, bytes]:
        """Send one merge patch of the pod; return status, reason and body of the answer."""
        client: Any = self._get_client()  # typed for a part only
        request = client.param_serialize(
            "PATCH",
            "/api/v1/namespaces/{namespace}/pods/{name}",
            path_params={"namespace": self._namespace, "name": self._name},
            header_params={"Accept": "application/json", "Content-Type": _MERGE_PATCH},
            body=patch,
            auth_settings=["BearerToken"],
        )
        answer = client.call_api(*request, _request_timeout=seconds)
        return answer.status, answer.reason, answer.read()

    def _get_client(self) -> ApiClient:
        """Return the client, made at first use: a token that is not there yet is tried again."""
        if self._api is None:
            configuration = self._configure()
            # Whoever calls tries again; hidden retries would multiply the seconds.
            configuration.retries = False
            self._api = ApiClient(configuration)
        return self._api


def _parse_message(body: bytes) -> str:
    """Return the message in an answer of the API server; empty if a proxy answered."""
    try:
        document = json.loads(body)
    except ValueError:
        return ""
    message = document.get("message") if isinstance(document, dict) else None
    return message if isinstance(message, str) else ""


def _shorten(text: str) -> str:
    """Return `text` on one line, cut to MAX_SHOWN_TEXT."""
    return " ".join(text.split())[:MAX_SHOWN_TEXT]
