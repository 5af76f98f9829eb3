"""What kubectl and Helm make of each command that a page shows, on a real API server.

Commands of kubectl are carried out: reads as they stand there, changes as far as the server checks
them (`--dry-run=server`). Helm has its own tests, which install and upgrade; here its options are
parsed, and the values that are set fit the chart.
"""

import itertools
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from icdc_api import naming
from icdc_cli.explanations import lookup
from icdc_testing import ROOT
from icdc_testing.kube import binaries
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.charts.files import CHARTS, OPERATOR
from icdc_testing.kube.charts.helm import Helm
from icdc_testing.kube.stored_pipelines import Pipelines, make_condition, make_minimal
from icdc_testing.user_programs import pages

pytestmark = [pytest.mark.api, pytest.mark.timeout(300)]

COMMAND_SECONDS = 60.0
TYPED = [
    *pages.list_typed(),
    *(
        ("docs/words.md", words)
        for entry in lookup.list_all()
        for command in entry.cure
        for words in pages.split_commands(command)
    ),
]
MENTIONED = [
    ("", words)
    for page in pages.list_pages()
    if page not in (pages.HISTORY, ROOT / "docs" / "words.md")
    for words in pages.list_mentioned(page)
]
PLUGINS = ("krew", "icdc")
"""Of kubectl, which are no part of it."""
PARSED = frozenset({"rollout", "api-resources"})
"""Commands of which the options alone are checked: they wait for pods, or name nothing of ours."""
CHANGES = frozenset({"annotate", "apply", "delete", "patch"})
NAMES = {"NAME": "shop", "SECRET": "search", "ACCOUNT": "icdc", "$kind": "secrets"}
NAMESPACES = ("NAMESPACE", "OPERATOR", "lake", "demo")
FINALIZER = "icebergcdc.dev/delete-indices"


def select(commands: list[tuple[str, list[str]]], *programs: str) -> list[tuple[str, ...]]:
    """Return the commands of these programs, each once."""
    return sorted({tuple(words) for _, words in commands if words[0] in programs})


CARRIED_OUT = [
    words
    for words in select(TYPED, "kubectl")
    if words[1] not in PLUGINS and not PARSED.intersection(words)
]
MERELY_PARSED = [
    words
    for words in sorted({*select(TYPED, "kubectl"), *select(MENTIONED, "kubectl", "helm")})
    if words not in CARRIED_OUT and len(words) > 1 and words[1] not in PLUGINS
]


@dataclass(frozen=True)
class PageReader:
    """Somebody who follows the pages, with a pipeline, in a namespace of the test."""

    namespace: str
    context: str
    folder: Path
    environment: dict[str, str]

    def type(self, words: list[str]) -> str:
        """Run the command and return what it prints."""
        command = " ".join(map(shlex.quote, words))
        return pages.type_commands(
            command, self.environment, folder=self.folder, seconds=COMMAND_SECONDS
        )

    def fill_in(self, word: str) -> str:
        """Return a word of a page with the names of this test in place of those of the page."""
        if word in NAMESPACES:
            return self.namespace
        if word == "OLD":
            return self.context
        for name in sorted(NAMES, key=len, reverse=True):
            word = re.sub(rf"(?<![A-Za-z]){re.escape(name)}(?![A-Za-z])", NAMES[name], word)
        return word.replace("OPERATOR", self.namespace).replace("SEARCH", "https://search:9200")


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """With kubectl on PATH, and nothing of the person who runs the tests."""
    folder = binaries.ensure_program("kubectl").parent
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "KUBERC": "off"}


@pytest.fixture(scope="module")
def reader(
    kube: KubeApi,
    spark_applications: None,
    environment: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[PageReader]:
    """Has a pipeline that is in every state for which a page waits, and the files of the pages."""
    folder = tmp_path_factory.mktemp("reader")
    (pipeline,) = pages.list_blocks(ROOT / "docs" / "quick-start.md", "yaml cluster")
    (folder / "pipeline.yaml").write_text(pipeline, encoding="utf-8")
    (folder / "ca.crt").write_text("", encoding="utf-8")
    kubeconfig = folder / "kubeconfig"
    shutil.copy(kube.kubeconfig, kubeconfig)
    here = {
        **environment,
        "KUBECONFIG": str(kubeconfig),
        "KUBE_EDITOR": "true",
        "HOME": str(folder),
    }
    with kube.create_namespace() as namespace:
        pipelines = Pipelines(kube.kubectl, namespace)
        resource = make_minimal()
        resource["metadata"]["finalizers"] = [FINALIZER]
        pipelines.apply(resource)
        conditions = [make_condition(kind, "True") for kind in ("Ready", "Stalled", "Suspended")]
        pipelines.patch_status({"observedGeneration": 1, "conditions": conditions})
        pipelines.run_ok("create", "secret", "generic", "search")
        context = kube.kubectl.run_ok("config", "current-context").strip()
        kubectl = replace(kube.kubectl, kubeconfig=kubeconfig)
        kubectl.run_ok("config", "set-context", "--current", f"--namespace={namespace}")
        yield PageReader(namespace, context, folder, here)
        removed = '{"metadata":{"finalizers":null}}'
        pipelines.run_ok("patch", naming.CRD_NAME, "shop", "--type=merge", "-p", removed)


def read_usage(shown: str) -> str:
    """Return the line of a help text that says how the command is called."""
    return shown.partition("\nUsage:\n")[2].strip().partition("\n")[0]


@pytest.mark.parametrize("words", [*select(TYPED, "helm"), *MERELY_PARSED], ids=" ".join)
def test_options_are_those_of_the_program(
    words: tuple[str, ...], environment: dict[str, str], helm: Helm
) -> None:
    program, *rest = words
    path = helm.program if program == "helm" else binaries.ensure_program("kubectl")
    # Options are parsed before help is shown: one that does not exist ends the command.
    command = " ".join(map(shlex.quote, [str(path), *rest, "--help"]))
    usage = read_usage(pages.type_commands(command, environment, seconds=COMMAND_SECONDS))
    # A command that does not exist shows the help of what is above it.
    verb = next(word for word in rest if re.fullmatch(r"[a-z][a-z-]+", word) and word != "lake")
    assert usage.startswith(f"{program} {verb} "), usage


@pytest.mark.parametrize("words", CARRIED_OUT, ids=" ".join)
def test_a_command_of_kubectl_is_carried_out(words: tuple[str, ...], reader: PageReader) -> None:
    filled = [reader.fill_in(word) for word in words]
    verb = words[1]
    if verb in CHANGES:
        filled.append("--dry-run=server")
    elif verb == "create":
        # The page makes a namespace that the test has made.
        filled.append("--dry-run=client")
    elif verb == "wait":
        filled.append("--timeout=10s")
    reader.type(filled)


def list_set_values() -> list[tuple[str, tuple[str, ...]]]:
    """Return the chart and the values of each command of Helm that sets some."""
    found = set()
    for words in select(TYPED, "helm"):
        values = tuple(
            word.replace("=N", "=3").replace("{...,", "{")
            for before, word in itertools.pairwise(words)
            if before == "--set"
        )
        named = [word.rpartition("/")[2] for word in words if "/charts/" in word]
        if values:
            found.add(((named or [OPERATOR.name])[0], values))
    return sorted(found)


@pytest.mark.parametrize(("chart", "values"), list_set_values())
def test_values_that_a_page_sets_fit_the_chart(
    chart: str, values: tuple[str, ...], helm: Helm
) -> None:
    options = (part for value in values for part in ("--set", value))
    assert helm.run_ok("template", "icdc", str(CHARTS / chart), *options)


def test_values_that_a_page_shows_fit_the_chart(helm: Helm) -> None:
    (block,) = pages.list_blocks(ROOT / "docs" / "networks.md", "yaml values")
    shown: dict[str, Any] = yaml.safe_load(block)
    rendered = helm.run_ok("template", "icdc", str(OPERATOR), values=shown)
    assert shown["proxy"]["httpsProxy"] in rendered
