"""`kubectl icdc ui` in a real browser, before a real API server: what a person sees and can do."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from icdc_api import naming
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.stored_pipelines import Pipelines
from icdc_testing.operator.deciding.shown_pipelines import ShownPipelines
from icdc_testing.user_programs import chromium
from icdc_testing.user_programs.chromium import BrowserPage, run_chromium
from icdc_testing.user_programs.installing import require_programs
from icdc_testing.waiting import wait

from . import page_scripts
from .shown_page import MARKUP, Shown, make_hostile, serve_page, store

pytestmark = pytest.mark.api

TAB_CHANGED = "document.dispatchEvent(new Event('visibilitychange'))"
"""What a browser says when somebody leaves the page for another one, or comes back to it."""


@pytest.fixture(scope="module")
def kubeconfig(kube: KubeApi, pipelines: Pipelines) -> Path:
    """That of somebody who may list pipelines, and nothing else."""
    pipelines.run_ok("create", "serviceaccount", "jane")
    pipelines.run_ok("create", "role", "lists", "--verb=list", f"--resource={naming.CRD_NAME}")
    account = f"--serviceaccount={pipelines.namespace}:jane"
    pipelines.run_ok("create", "rolebinding", "lists", "--role=lists", account)
    jane = kube.make_kubectl_as(pipelines.namespace, "jane")
    lists = ("get", naming.CRD_NAME, "-n", pipelines.namespace)
    # The API server takes up a role in its own time.
    wait.wait_until(lambda: jane.run(*lists).code == 0, "the pipelines may be listed")
    return jane.kubeconfig


@pytest.fixture(scope="module")
def pipelines(kube: KubeApi) -> Iterator[Pipelines]:
    """Those of a company, and one of somebody who would like to do harm."""
    with kube.create_namespace() as namespace:
        stored, now = Pipelines(kube.kubectl, namespace), datetime.now(UTC)
        store(stored, [*ShownPipelines(now).list_all(), make_hostile(now)])
        yield stored


@pytest.fixture(scope="module")
def shown(pipelines: Pipelines, kubeconfig: Path) -> Iterator[Shown]:
    """The page, for all tests."""
    with serve_page(pipelines, kubeconfig) as base:
        yield Shown(pipelines, base)


@pytest.fixture(scope="module")
def browser() -> Iterator[BrowserPage]:
    """One browser for all tests."""
    require_programs(chromium.PROGRAM)
    with run_chromium() as page:
        yield page


@pytest.fixture
def page(browser: BrowserPage, shown: Shown) -> Iterator[BrowserPage]:
    """A wide window that shows the first page; afterwards nothing was asked of any other host."""
    browser.resize(1280)
    browser.prefer("light")
    browser.requests.clear()
    browser.problems.clear()
    browser.open(shown.base)
    yield browser
    assert {address for address in browser.requests if not address.startswith(shown.base)} == set()


def test_the_first_page_shows_at_a_glance_who_needs_somebody(
    page: BrowserPage, shown: Shown
) -> None:
    rows = page.evaluate(page_scripts.ROWS)
    assert [row[0].removeprefix(f"{shown.pipelines.namespace}/") for row in rows] == [
        *("hostile", "shop", "catalogue", "clickstream", "people"),
        *("invoices", "payments", "returns", "countries"),
    ]
    assert [row[1].partition(", ")[0] for row in rows] == [
        *("Stalled Bug", "Stalled Gap", "Retrying TargetUnavailable", "Exporting 43%"),
        *("Suspended", "Streaming", "Streaming", "Streaming", "Complete"),
    ]
    shop, refusing, behind = rows[1], rows[5], rows[7]
    assert shop[2:7] == ["2/3", "14", "2h", "0", "2 of 3 equal 3h ago"]
    assert (refusing[5], behind[3], behind[4]) == ("12", "3", "42s")
    assert page.evaluate("document.querySelector('table').getBoundingClientRect().bottom") < 800
    assert page.problems == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "shop",
            [
                "Gap · table shop.orders",
                "The changes since the applied snapshot are lost.",
                "Who acts: the author of the pipeline.",
                "icdc resync shop -n {namespace} --table shop.orders",
            ],
        ),
        (
            "clickstream",
            ["41 of 96 chunks; 51,904,000 of 118,220,416 rows; 86,300 rows a second; ends about "],
        ),
        ("catalogue", ["TargetUnavailable · run catalogue-c7-1", "Who acts: nobody: it is"]),
        ("payments", ["follows the run payments-c2-1", "the same", "equal 3h ago"]),
    ],
)
def test_the_page_of_a_pipeline_says_what_to_do(
    name: str, said: list[str], page: BrowserPage, shown: Shown
) -> None:
    page.open(shown.locate(name))
    text = page.evaluate("document.body.innerText")
    for part in said:
        assert part.format(namespace=shown.pipelines.namespace) in text
    assert page.problems == []


def test_nothing_that_a_tenant_wrote_is_more_than_text(page: BrowserPage, shown: Shown) -> None:
    page.open(shown.locate("hostile"))
    assert page.evaluate("document.body.innerText").count(MARKUP) >= 6
    assert page.evaluate("document.querySelectorAll('img, main script, body noscript').length") == 0
    assert page.evaluate("document.scripts.length") == 1
    addresses = set(page.evaluate("[...document.links].map(link => link.href)"))
    assert {address for address in addresses if not address.startswith(shown.base)} == set()
    assert page.evaluate("window.hit") is None
    # A browser would say so if the policy had to refuse something.
    assert page.problems == []


def test_what_came_in_as_markup_all_the_same_would_be_refused(page: BrowserPage) -> None:
    page.evaluate(f"document.querySelector('main').innerHTML = {json.dumps(MARKUP)}")
    page.evaluate("document.querySelector('main a').click()")
    page.evaluate(
        "document.head.append(Object.assign(document.createElement('script'), "
        "{textContent: 'window.hit = 1'}))"
    )
    # The image, its handler, the address and the script of the head; the one in the markup is none
    # to a browser. What is refused is said a moment later.
    wait.wait_until(
        lambda: page.evaluate("window.hit") is None and count_refusals(page) == 4,
        "the policy refuses four things",
    )


def count_refusals(page: BrowserPage) -> int:
    return sum("Content Security Policy" in problem for problem in page.problems)


def test_a_page_refreshes_itself_and_leaves_focus_and_selection_where_they_are(
    page: BrowserPage, shown: Shown
) -> None:
    link = "document.querySelector('a[href$=\"/returns\"]')"
    page.evaluate(f"window.mark = 1, {link}.focus()")
    page.evaluate("getSelection().selectAllChildren(document.querySelector('h1'))")
    before = shown.pipelines.get("returns")["status"]
    why = {"state": "Stalled", "reason": "ColumnNotFound", "message": "no column x"}
    tables = [before["tables"][0] | why]
    shown.pipelines.patch_status({"phase": "Stalled", "tables": tables}, "returns")
    # Not one key, and no click: it comes by itself.
    page.wait_for(f"{link}.closest('tr').innerText.includes('Stalled ColumnNotFound')")
    rows = page.evaluate(page_scripts.ROWS)
    assert [row[0].rpartition("/")[2] for row in rows][:3] == ["hostile", "returns", "shop"]
    assert page.evaluate("document.activeElement.innerText") == "returns"
    assert page.evaluate("getSelection().toString()") == "Pipelines"
    assert page.evaluate("window.mark") == 1
    assert page.problems == []
    shown.pipelines.patch_status(before, "returns")


def test_a_page_at_which_nobody_looks_asks_nobody(page: BrowserPage) -> None:
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, writable: true})")
    asked = len(page.requests)
    page.evaluate(TAB_CHANGED)
    assert (page.evaluate("document.hidden"), len(page.requests)) == (True, asked)
    page.evaluate(f"document.hidden = false, {TAB_CHANGED}")
    wait.wait_until(lambda: page.evaluate("true") and len(page.requests) > asked, "it asks again")


def test_a_paused_page_stays_as_it_is(page: BrowserPage) -> None:
    page.evaluate("document.querySelector('nav a:last-child').click()")
    page.wait_for("location.search === '?pause' && document.readyState === 'complete'")
    asked = len(page.requests)
    page.evaluate(TAB_CHANGED)
    assert page.evaluate("document.querySelector('nav a:last-child').innerText") == "Resume"
    assert len(page.requests) == asked


def test_all_that_a_mouse_reaches_is_reached_and_opened_by_keyboard(
    page: BrowserPage, shown: Shown
) -> None:
    page.open(f"{shown.base}?pause")
    reached = []
    for address in page.evaluate(page_scripts.LINKS):
        page.press("Tab")
        focused = page.evaluate(page_scripts.FOCUSED)
        assert focused["outline"] >= 2, focused
        assert focused["visible"], focused
        reached.append((address, focused["href"]))
    assert [href for _, href in reached] == [address for address, _ in reached]
    assert len(reached) > 10
    page.open(f"{shown.base}?pause")
    page.press("Tab")
    page.press("Enter")
    assert page.evaluate("document.activeElement.tagName") == "MAIN"
    page.press("Tab")
    page.press("Enter")
    page.wait_for("document.title.startsWith('hostile')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read_in_either_scheme(
    scheme: str, page: BrowserPage, shown: Shown
) -> None:
    page.prefer(scheme)
    weak = {}
    for address in (shown.base, *map(shown.locate, ("shop", "clickstream", "hostile"))):
        page.open(address)
        weak[address] = page.evaluate(page_scripts.WEAK)
        if address == shown.base:
            # A row below the pointer has another background.
            page.point(**page.evaluate(page_scripts.POINTED))
            weak["below the pointer"] = page.evaluate(page_scripts.WEAK)
    assert {where: texts for where, texts in weak.items() if texts} == {}
    shine = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]"
    assert (page.evaluate(shine) > 128) == (scheme == "light")


def test_no_window_is_too_narrow(page: BrowserPage, shown: Shown) -> None:
    words = [f"{shown.base}words", f"{shown.base}words/Gap"]
    wide = {}
    for address in (shown.base, *map(shown.locate, ("shop", "clickstream", "hostile")), *words):
        page.open(address)
        for width in (320, 480, 700, 961, 1100, 1280):
            page.resize(width)
            wide[address, width] = page.evaluate(page_scripts.OVERFLOWING)
    assert {where: what for where, what in wide.items() if what} == {}


def test_a_page_that_gets_no_answer_shows_what_it_has_and_says_so(
    page: BrowserPage, shown: Shown, kubeconfig: Path
) -> None:
    with serve_page(shown.pipelines, kubeconfig) as base:
        page.open(base)
    page.wait_for(f"{TAB_CHANGED}, document.getElementById('complaint')")
    text = page.evaluate("document.querySelector('main').innerText")
    assert text.startswith("icdc ui does not answer.")
    assert "Stalled Gap" in text
    page.requests.clear()
