"""Flags and variables of the operator's process."""

import argparse
from pathlib import Path
from typing import Any

import pytest

from icdc_api import __version__
from icdc_operator.cluster import options
from icdc_operator.cluster.heads import settings
from icdc_operator.cluster.heads.settings import ReaderSettings as HeadSettings
from icdc_operator.cluster.loop.slots import Limits

pytestmark = pytest.mark.unit

ENOUGH = ["--all-namespaces", "--image", "spark:1"]


def test_defaults_are_those_of_a_pod_with_one_replica() -> None:
    given = options.parse(ENOUGH, {})
    assert given.namespaces == (None,)
    assert given.runs.image == "spark:1"
    assert (given.metrics_port, given.health_port) == (8080, 8081)
    assert not given.leader_elect
    assert not given.read_catalog_secrets
    assert not given.limits
    assert given.log_format == "json"


@pytest.mark.parametrize(
    ("flags", "variables"),
    [
        (["--namespace", "a", "--namespace", "b", "--image", "i"], {}),
        (["--image", "i"], {"ICDC_NAMESPACE": "a,b"}),
        (["--namespace", "a", "--namespace", "b"], {"ICDC_NAMESPACE": "c", "ICDC_IMAGE": "i"}),
    ],
)
def test_a_flag_goes_before_its_variable(flags: list[str], variables: dict[str, str]) -> None:
    given = options.parse(flags, variables)
    assert (given.namespaces, given.runs.image) == (("a", "b"), "i")


def test_every_flag_is_also_a_variable() -> None:
    given = options.parse(
        [],
        {
            "ICDC_ALL_NAMESPACES": "true",
            "ICDC_METRICS_PORT": "0",
            "ICDC_HEALTH_PORT": "9090",
            "ICDC_LEADER_ELECT": "True",
            "ICDC_LEASE_NAME": "other",
            "ICDC_LEASE_NAMESPACE": "system",
            "ICDC_IMAGE": "i",
            "ICDC_IMAGE_PULL_POLICY": "Always",
            "ICDC_IMAGE_PULL_SECRET": "x,y",
            "ICDC_TRUSTED_NAMESPACE": "retail,*",
            "ICDC_WORKERS": "3",
            "ICDC_MAX_ACTIVE_RUNS": "10",
            "ICDC_MAX_ACTIVE_RUNS_PER_NAMESPACE": "5",
            "ICDC_MAX_ACTIVE_RUNS_PER_TARGET": "2",
            "ICDC_READ_CATALOG_SECRETS": "yes",
            "ICDC_HEADS_SOCKET": "/run/h.sock",
            "ICDC_HEADS_ALLOW_HOST": "a,10.0.0.0/8",
            "ICDC_HEADS_DENY_HOST": "*",
            "ICDC_HEADS_USE_CLOUD_ROLE": "true",
            "ICDC_HEADS_LOCAL_FILES": "true",
            "ICDC_LOG_FORMAT": "text",
            "ICDC_LOG_LEVEL": "debug",
        },
    )
    assert given.leader_elect
    assert given.read_catalog_secrets
    assert given.heads_socket == Path("/run/h.sock")
    assert given.heads == HeadSettings(("a", "10.0.0.0/8"), ("*",), True, True)
    assert given.limits == Limits(total=10, per_namespace=5, per_target=2)
    assert (given.metrics_port, given.health_port, given.workers) == (0, 9090, 3)
    assert (given.lease_name, given.lease_namespace) == ("other", "system")
    assert given.runs.image_pull_policy == "Always"
    assert given.runs.image_pull_secrets == ("x", "y")
    assert given.runs.trusted_namespaces == ("retail", "*")
    assert (given.log_format, given.log_level) == ("text", "debug")
    assert given.runs.log_format == "text"


PROXIES = {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "localhost,.svc"}


def test_runs_get_the_proxies_of_the_operator_where_that_is_asked_for() -> None:
    assert options.parse(ENOUGH, PROXIES).runs.proxies == ()
    given = options.parse([*ENOUGH, "--proxy-runs"], {**PROXIES, "HTTP_PROXY": "", "OTHER": "x"})
    # The last is the API server: Kubernetes replaces it in the pod.
    near = "localhost,.svc,$(KUBERNETES_SERVICE_HOST)"
    assert given.runs.proxies == (
        ("HTTPS_PROXY", "http://proxy:3128"),
        ("https_proxy", "http://proxy:3128"),
        ("NO_PROXY", near),
        ("no_proxy", near),
    )


def test_the_variable_in_small_letters_counts_as_it_does_for_most_clients() -> None:
    small = {"https_proxy": "http://small:1", "no_proxy": ".small"}
    given = dict(options.parse([*ENOUGH, "--proxy-runs"], {**PROXIES, **small}).runs.proxies)
    assert given["HTTPS_PROXY"] == given["https_proxy"] == "http://small:1"
    assert given["NO_PROXY"] == given["no_proxy"] == ".small,$(KUBERNETES_SERVICE_HOST)"
    assert options.parse([*ENOUGH, "--proxy-runs"], {}).runs.proxies == ()


@pytest.mark.parametrize(
    ("host", "ipv6"),
    [("", False), ("10.96.0.1", False), ("fd00:10:96::1", True), ("api.example", False)],
)
def test_the_family_of_a_cluster_is_that_of_its_api_server(host: str, ipv6: bool) -> None:
    assert options.parse(ENOUGH, {"KUBERNETES_SERVICE_HOST": host}).runs.ipv6 is ipv6


def test_a_switch_that_a_variable_turned_on_can_be_turned_off() -> None:
    given = options.parse([*ENOUGH, "--no-leader-elect"], {"ICDC_LEADER_ELECT": "1"})
    assert not given.leader_elect


@pytest.mark.parametrize(
    ("flags", "variables", "text"),
    [
        ([], {}, "--namespace"),
        ([*ENOUGH, "--namespace", "a"], {}, "exclude"),
        ([*ENOUGH, "--metrics-port", "70000"], {}, "0 to 65535"),
        ([*ENOUGH, "--workers", "0"], {}, "at least 1"),
        ([*ENOUGH, "--max-active-runs", "-1"], {}, "0 for any number"),
        (ENOUGH, {"ICDC_WORKERS": "many"}, "invalid"),
        (ENOUGH, {"ICDC_LEADER_ELECT": "perhaps"}, "ICDC_LEADER_ELECT"),
        (ENOUGH, {"ICDC_LOG_FORMAT": "xml"}, "json, text"),
        (ENOUGH, {"ICDC_IMAGE_PULL_POLICY": "Now"}, "IfNotPresent"),
        (
            [*ENOUGH, "--proxy-runs"],
            {"HTTP_PROXY": "http://u:p@proxy:3128"},
            "HTTP_PROXY has a login; give it to runs by their pod templates",
        ),
    ],
)
def test_a_wrong_option_ends_with_code_2_and_says_which(
    flags: list[str],
    variables: dict[str, str],
    text: str,
    capsys: pytest.CaptureFixture[Any],
) -> None:
    with pytest.raises(SystemExit) as ended:
        options.parse(flags, variables)
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


def test_both_processes_understand_the_same_flags_of_readers() -> None:
    given = HeadSettings(("a", "b"), ("*.c",), True, True)
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser)
    for expected in (given, HeadSettings()):
        assert settings.build_settings(parser.parse_args(expected.flags)) == expected
        assert options.parse([*ENOUGH, *expected.flags], {}).heads == expected


def test_without_an_image_runs_have_that_of_the_same_release() -> None:
    given = options.parse(["--namespace", "a"], {})
    assert given.runs.image == f"iceberg-cdc-operator/spark:{__version__}"
