"""A headless Chromium with one page, as a person sees and uses it: by eye, keyboard and window.

With an empty profile, and without what a browser does by itself in the background: what it requests
is what the page made it request.
"""

import base64
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from icdc_testing.kube.server_process import end_with_parent
from icdc_testing.user_programs.devtools import DevTools, Message, RefusedError
from icdc_testing.waiting import wait

PROGRAM = "chromium"
_FLAGS = (
    "--headless",
    # Root has no sandbox of Chromium's; all that it opens here is our own page.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # /dev/shm of a container is too small for a large page.
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
_KEYS = {
    "Tab": {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9},
    # With its text: what a key does to a link follows from the character.
    "Enter": {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"},
}
_END_SECONDS = 30.0


class BrowserPage:
    """The page. `requests` and `problems` are of all that it has shown since it was made."""

    def __init__(self, reading: int, writing: int) -> None:
        self.requests: list[str] = []
        """Addresses that were requested, in their order."""
        self.problems: list[str] = []
        """Dialogs, errors of scripts, and what the policy of a page has refused."""
        self._devtools = DevTools(reading, writing, self._note)
        target = self._devtools.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._devtools.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session: str = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Message:
        """Return the result of a method of the page."""
        return self._devtools.call(method, self._session, **parameters)

    def open(self, address: str) -> None:
        """Show the page at the address, whole."""
        result = self.call("Page.navigate", url=address)
        assert "errorText" not in result, f"{address}: {result['errorText']}"
        # The address bar has the new one before the page is there.
        self.wait_for(f"location.href === {address!r} && document.readyState === 'complete'")

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression; RefusedError if it raises, or while a page is left."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in result:
            raise RefusedError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    def wait_for(self, script: str, *, seconds: float = wait.WAIT_SECONDS) -> None:
        """Return once an expression is true, on whichever page is shown then."""
        wait.wait_until(lambda: self._is_true(script), script, seconds=seconds)

    def _is_true(self, script: str) -> bool:
        try:
            return bool(self.evaluate(f"Boolean(({script}))"))
        except RefusedError:
            # Between two pages there is nothing to ask.
            return False

    def press(self, key: str) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, **_KEYS[key])

    def point(self, x: float, y: float) -> None:
        """Move the pointer there, in units of CSS from the corner of the window."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def resize(self, width: int, height: int = 800, *, scale: float = 1) -> None:
        """Give the window this size in units of CSS, of `scale` pixels each."""
        size = {"width": width, "height": height, "deviceScaleFactor": scale}
        self.call("Emulation.setDeviceMetricsOverride", mobile=False, **size)

    def prefer(self, scheme: str) -> None:
        """Be the browser of somebody who prefers the scheme `light` or `dark`."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def capture(self) -> bytes:
        """Return what the window shows, as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def _note(self, event: Message) -> None:
        parameters = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Page.javascriptDialogOpening":
                self.problems.append(f"dialog: {parameters['message']}")
                # Not awaited: the call that this event interrupts waits for the dialog to close.
                self._devtools.send("Page.handleJavaScriptDialog", self._session, accept=True)
            case "Runtime.exceptionThrown":
                self.problems.append(f"error: {parameters['exceptionDetails']}")
            case "Runtime.consoleAPICalled":
                self.problems.append(f"console: {parameters['args']}")
            case "Log.entryAdded":
                self.problems.append(f"log: {parameters['entry']['text']}")


@contextmanager
def run_chromium(environment: Mapping[str, str] | None = None) -> Iterator[BrowserPage]:
    """Run a Chromium of its own; it has ended, and its profile is gone, at the end."""
    # What is killed may still write into it for a moment.
    folders = tempfile.TemporaryDirectory(prefix="icdc-chromium-", ignore_cleanup_errors=True)
    with folders as folder:
        yield from _run(Path(folder), environment)


def _run(folder: Path, environment: Mapping[str, str] | None) -> Iterator[BrowserPage]:
    # Chromium reads what it is asked from descriptor 3, and answers on 4. These here are opened in
    # this order, so the second one is never 3, which is replaced first.
    asked, asking = os.pipe()
    answers, answering = os.pipe()
    placed = f'exec "$@" 3<&{asked} 4>&{answering}'
    program = shutil.which(PROGRAM)
    assert program is not None, "require_programs comes first"
    command = [*end_with_parent(), program, *_FLAGS, f"--user-data-dir={folder}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-c", placed, "bash", *command],
            pass_fds=(asked, answering),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    os.close(asked)
    os.close(answering)
    try:
        yield BrowserPage(answers, asking)
    finally:
        # Its whole session, at once: a profile that is thrown away need not be saved.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(_END_SECONDS)
        os.close(answers)
        os.close(asking)
