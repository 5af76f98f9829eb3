"""Parse the flags of the operator, each of which is also an ICDC_ variable.

A flag wins over its variable. Opens nothing, reads no file.

    --workers 4                  ICDC_WORKERS=4
    --namespace a --namespace b  ICDC_NAMESPACE=a,b
    --no-leader-elect            ICDC_LEADER_ELECT=false
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from icdc_api import __version__
from icdc_api.job import proxies
from icdc_operator.cluster import logs
from icdc_operator.cluster.heads import settings as head_settings
from icdc_operator.cluster.heads.settings import ReaderSettings as HeadSettings
from icdc_operator.cluster.kube.environment import IN_CLUSTER
from icdc_operator.cluster.loop import slots
from icdc_operator.cluster.loop.slots import Limits
from icdc_operator.manifests.launch import InstallSettings

PULL_POLICIES = ("Always", "IfNotPresent", "Never")

_TRUE = frozenset({"1", "true", "yes", "on"})
# An empty variable is no error, see `_Adder.add_value`.
_FALSE = frozenset({"", "0", "false", "no", "off"})

DEFAULT_IMAGE = f"iceberg-cdc-operator/spark:{__version__}"
"""As the chart has it: the release of the operator, from the default registry."""


@dataclass(frozen=True)
class Options:
    """The settings of one operator process."""

    namespaces: tuple[str | None, ...]
    """Namespaces whose pipelines it runs; None alone: all, which needs a ClusterRole."""
    runs: InstallSettings
    """Settings of the installation for runs, such as the default image."""
    metrics_port: int = 8080
    """0: a free one, which is logged."""
    health_port: int = 8081
    """0: a free one, which is logged."""
    workers: int = 8
    """Pipelines that are reconciled at the same time."""
    limits: Limits = field(default_factory=Limits)
    """How many runs may be active at the same time."""
    leader_elect: bool = False
    """Work only while holding a Lease, for more than one replica."""
    lease_name: str = "iceberg-cdc-operator"
    """Name of that Lease; operators that share the work have the same."""
    lease_namespace: str | None = None
    """None: the namespace of the pod, else the first one of `namespaces`."""
    read_catalog_secrets: bool = False
    """Whether the Secrets that catalogs name may be read, to poll current snapshots."""
    heads: HeadSettings = field(default_factory=HeadSettings)
    """Access of the readers of catalogs that this process starts."""
    heads_socket: Path | None = None
    """Socket of another container that starts the readers; it has flags of its own."""
    log_format: str = "json"
    """One of `logs.FORMATS`."""
    log_level: str = "info"
    """One of `logs.LEVELS`."""


def parse(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> Options:
    """Parse a command line; ends the process with code 2 if it is wrong."""
    environ = os.environ if environ is None else environ
    parser = build_parser(environ)
    given = parser.parse_args(argv)
    if given.all_namespaces and given.namespace:
        parser.error("--all-namespaces and --namespace exclude each other")
    # No default: what the operator may watch depends on the Role that it was given.
    if not given.all_namespaces and not given.namespace:
        parser.error("say which pipelines: --namespace NS (repeatable) or --all-namespaces")
    return Options(
        namespaces=tuple(dict.fromkeys(given.namespace)) or (None,),
        runs=InstallSettings(
            image=given.image,
            image_pull_policy=given.image_pull_policy,
            image_pull_secrets=tuple(given.image_pull_secret),
            trusted_namespaces=tuple(given.trusted_namespace),
            proxies=_read_proxies(parser, environ) if given.proxy_runs else (),
            # The address of the Service of the API server is of the cluster's first family.
            ipv6=":" in environ.get(IN_CLUSTER, ""),
            log_format=given.log_format,
        ),
        metrics_port=given.metrics_port,
        health_port=given.health_port,
        workers=given.workers,
        limits=Limits(
            total=given.max_active_runs,
            per_namespace=given.max_active_runs_per_namespace,
            per_target=given.max_active_runs_per_target,
        ),
        leader_elect=given.leader_elect,
        lease_name=given.lease_name,
        lease_namespace=given.lease_namespace,
        read_catalog_secrets=given.read_catalog_secrets,
        heads=head_settings.build_settings(given),
        heads_socket=given.heads_socket,
        log_format=given.log_format,
        log_level=given.log_level,
    )


def _read_proxies(
    parser: argparse.ArgumentParser, environ: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Return the variables with proxies; ends the process where one has a login.

    In capital and in small letters: an image may have the latter, which most clients read first.
    """
    values = {name: environ.get(name.lower()) or environ.get(name) for name in proxies.VARIABLES}
    found = {name: value for name, value in values.items() if value}
    for name, value in found.items():
        if "@" in value:
            # Whoever may read SparkApplications would read it.
            parser.error(
                f"--proxy-runs: {name} has a login; give it to runs by their pod templates"
            )
    if found:
        # The address of the API server, whatever else it is. Kubernetes replaces $(...).
        near = (found.get(proxies.EXCEPTIONS), f"$({IN_CLUSTER})")
        found[proxies.EXCEPTIONS] = ",".join(filter(None, near))
    return tuple((name, value) for big, value in found.items() for name in (big, big.lower()))


def build_parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    """Build the command line; defaults are those of the variables in `environ`."""
    parser = argparse.ArgumentParser(
        prog="icdc-operator",
        description="Runs the pipelines of a Kubernetes cluster. The cluster is that of the pod, "
        "or of KUBECONFIG.",
        epilog="Every flag is also a variable: --metrics-port is ICDC_METRICS_PORT. If a flag may "
        "be repeated, the variable contains its values, separated by commas.",
    )
    flags = _Adder(parser, environ)
    flags.add_values("namespace", "NS", "watch the pipelines of this namespace; repeatable")
    flags.add_switch("all-namespaces", "watch the pipelines of all namespaces; needs a ClusterRole")
    flags.add_value("metrics-port", "port of /metrics; 0: a free one", _parse_port, 8080)
    flags.add_value("health-port", "port of /healthz and /readyz; 0: a free one", _parse_port, 8081)
    flags.add_switch("leader-elect", "work only while holding a Lease; for more than one replica")
    flags.add_value("lease-name", "name of that Lease", str, Options.lease_name)
    flags.add_value("lease-namespace", "namespace of that Lease; default: the pod's", str, None)
    flags.add_value(
        "image", "image of driver and executors of pipelines that name none", str, DEFAULT_IMAGE
    )
    flags.add_value("image-pull-policy", "for that image", _build_choice(PULL_POLICIES), None)
    flags.add_values("image-pull-secret", "NAME", "Secret to pull that image with; repeatable")
    text = (
        "namespace whose pipelines may set properties that spark-submit acts on; *: all; repeatable"
    )
    flags.add_values("trusted-namespace", "NS", text)
    text = "give runs the variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY of this process"
    flags.add_switch("proxy-runs", text)
    flags.add_value(
        "workers",
        "pipelines that are reconciled at the same time",
        _parse_positive,
        Options.workers,
    )
    _add_limits(flags)
    flags.add_switch("read-catalog-secrets", "read the Secrets of catalogs, to see new snapshots")
    _add_heads(flags)
    text = "json or text; of the operator and of the drivers of runs"
    flags.add_value("log-format", text, _build_choice(logs.FORMATS), Options.log_format)
    flags.add_value(
        "log-level", "debug, info, warning or error", _build_choice(logs.LEVELS), "info"
    )
    return parser


def _add_limits(flags: "_Adder") -> None:
    """Add the limits. Their names stand in the status of a pipeline that waits for one."""
    text = "runs that may be active at the same time, {}; 0: any number"
    flags.add_value(slots.OPERATOR.removeprefix("--"), text.format("in all"), _parse_limit, 0)
    flags.add_value(
        slots.NAMESPACE.removeprefix("--"), text.format("in each namespace"), _parse_limit, 0
    )
    of_target = text.format("of pipelines with the same OpenSearch hosts")
    flags.add_value(slots.TARGET.removeprefix("--"), of_target, _parse_limit, 0)


def _add_heads(flags: "_Adder") -> None:
    """Add the flags that `icdc-heads` has too; see `heads.settings`."""
    what = "a name, an address or a network that readers of catalogs may {} to; * stands for any"
    flags.add_value(
        "heads-socket", "where a process icdc-heads listens that reads them", Path, None
    )
    flags.add_values(_strip_dashes(head_settings.ALLOW), "PATTERN", what.format("connect"))
    flags.add_values(_strip_dashes(head_settings.DENY), "PATTERN", what.format("not connect"))
    flags.add_switch(
        _strip_dashes(head_settings.CLOUD_ROLE), "let them use the cloud role of this pod or host"
    )
    flags.add_switch(
        _strip_dashes(head_settings.LOCAL_FILES), "let them read files of this pod or host"
    )


def _strip_dashes(flag: str) -> str:
    return flag.removeprefix("--")


class _Adder:
    """Adds flags whose defaults come from variables."""

    def __init__(self, parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
        self._parser = parser
        self._environ = environ

    def add_value(self, name: str, text: str, convert: Any, default: Any) -> None:
        # An empty variable counts as none: templates cannot leave a variable out as easily.
        # A default that is text is converted by argparse, with the same errors as a flag.
        given = self._environ.get(_name_variable(name)) or default
        self._parser.add_argument(f"--{name}", type=convert, default=given, help=text)

    def add_values(self, name: str, metavar: str, text: str) -> None:
        given = [value for value in self._environ.get(_name_variable(name), "").split(",") if value]
        self._parser.add_argument(
            f"--{name}", metavar=metavar, action=_Append, default=given, help=text
        )

    def add_switch(self, name: str, text: str) -> None:
        given = self._environ.get(_name_variable(name), "").lower()
        # Here, because argparse checks no default of a switch.
        if given not in _TRUE | _FALSE:
            self._parser.error(f"{_name_variable(name)} is true or false, not {given!r}")
        self._parser.add_argument(
            # It adds --no-…, by which a command line takes back what a variable says.
            f"--{name}",
            action=argparse.BooleanOptionalAction,
            default=given in _TRUE,
            help=text,
        )


class _Append(argparse.Action):
    """Like `append`, but the first flag replaces the values of the variable.

    argparse's own `append` adds to the default, so a flag could not narrow a variable.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        values_so_far = getattr(namespace, self.dest)
        first = values_so_far is self.default
        setattr(namespace, self.dest, [values] if first else [*values_so_far, values])


def _name_variable(name: str) -> str:
    return f"ICDC_{name.upper().replace('-', '_')}"


def _parse_port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"a port is 0 to 65535, not {port}")
    return port


def _parse_positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"at least 1, not {number}")
    return number


def _parse_limit(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"0 for any number, or a limit, not {number}")
    return number


def _build_choice(allowed: Sequence[str]) -> Any:
    # Not by `choices`, for which argparse checks no default, and so no variable.
    def convert(text: str) -> str:
        if text not in allowed:
            raise argparse.ArgumentTypeError(f"one of {', '.join(allowed)}, not {text!r}")
        return text

    return convert
