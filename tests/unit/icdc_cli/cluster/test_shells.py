"""What Tab does in each shell, as a person has set it up: by the lines that `icdc` prints."""

import os
import re
import shlex
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from icdc_cli.commands import completion
from icdc_testing.kube.api_stub import ApiStub, Object
from icdc_testing.user_programs.installing import require_programs
from icdc_testing.waiting import wait

from .shell_terminal import open_terminal

pytestmark = pytest.mark.unit

CONTEXT = "arn:aws::eks=1"
"""What clusters of Amazon are called; shells divide words at such characters."""
FILE = "my pipeline.yaml"


@dataclass(frozen=True)
class Shell:
    """One way to set up completion."""

    program: str
    setup: str
    """What a person writes into the file that the shell reads first."""
    arguments: tuple[str, ...]
    """How it is told to read that file, {folder}/rc, and no other."""
    count: int | None = None
    """How many lines are typed; None for all."""


SHELLS = {
    "bash": Shell(
        "bash", "source <(icdc completion bash)", ("--noprofile", "--rcfile", "{folder}/rc", "-i")
    ),
    "zsh": Shell(
        "zsh",
        "autoload -Uz compinit && compinit -u -D\nsource <(icdc completion zsh)",
        ("--no-global-rcs", "-i"),
    ),
    "zsh, from a folder of functions": Shell(
        "zsh",
        "icdc completion zsh > functions/_icdc\n"
        "fpath=($PWD/functions $fpath)\nautoload -Uz compinit && compinit -u -D",
        ("--no-global-rcs", "-i"),
        # It is the same function once it has been called.
        count=2,
    ),
    "fish": Shell(
        "fish",
        "icdc completion fish | source",
        ("--no-config", "-i", "-C", "source {folder}/rc"),
    ),
}
TYPED = {
    "dead-l": "dead-letters",
    "dead-letters rep": "dead-letters replay",
    "status --all-n": "status --all-namespaces",
    "resync shop --mode V": "resync shop --mode Verify",
    "resync --mode=V": "resync --mode=Verify",
    "status sh": "status shop",
    "logs -f sh": "logs -f shop",
    "plan -n lake ": "plan -n lake other",
    "status --context arn:aws::e": f"status --context {CONTEXT}",
    "status --context=arn:aws::e": f"status --context={CONTEXT}",
    "run -f my": f"run -f {FILE}",
    "pause --kubeconfig=my": f"pause --kubeconfig={FILE}",
}
"""What is typed before Tab, and the arguments that `icdc` gets then."""


def write_program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def folder(api: ApiStub, shop: Object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with our programs, of which `icdc` notes its arguments in `words`."""
    api.add_pipeline({"metadata": {"name": "other"}}, "lake")
    config = tmp_path / "kubeconfig"
    config.write_text(config.read_text().replace('"there"', f'"{CONTEXT}"'), encoding="utf-8")
    (tmp_path / FILE).touch()
    (tmp_path / "functions").mkdir()
    (tmp_path / "words").touch()
    python = f"exec {shlex.quote(sys.executable)}"
    program = "from icdc_cli import main; main.complete()"
    write_program(tmp_path / completion.PROGRAM, f"{python} -c '{program}' \"$@\"")
    write_program(
        tmp_path / "icdc",
        f'[ "$1" = completion ] && {python} -m icdc_cli.main "$@"\n'
        f'echo "$*" >> {shlex.quote(str(tmp_path))}/words',
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def has_lines(path: Path, count: int) -> bool:
    return path.read_text(encoding="utf-8").count("\n") == count


@pytest.mark.parametrize("name", SHELLS)
def test_tab_completes_what_is_typed(name: str, folder: Path) -> None:
    shell = SHELLS[name]
    require_programs(shell.program)
    for file in ("rc", ".zshrc"):
        (folder / file).write_text(f"{shell.setup}\n", encoding="utf-8")
    own = {name: str(folder) for name in ("HOME", "ZDOTDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    environment = {
        **os.environ,
        **own,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "INPUTRC": os.devnull,
        "TERM": "xterm",
    }
    command = [shell.program, *(part.format(folder=folder) for part in shell.arguments)]
    words, lines = folder / "words", list(TYPED)[: shell.count]
    with open_terminal(command, environment) as terminal:
        for count, typed in enumerate(lines, 1):
            terminal.press(f"icdc {typed}\t\r")
            wait.wait_until(partial(has_lines, words, count), f"icdc runs: {typed}")
        # What does not decide on one word is listed; bash waits for a second key for that.
        terminal.press("icdc resync shop --mode R\t\t")
        wait.wait_until(lambda: b"Repair" in terminal.drawn, "a mode is listed")
        wait.wait_until(lambda: b"Rollback" in terminal.drawn, "the other mode is listed")
    completed = dict(zip(lines, words.read_text().splitlines(), strict=True))
    assert completed == {typed: TYPED[typed] for typed in lines}
    # None of them has a description, which zsh shows behind two dashes.
    assert re.search(rb"Repair\W+-- ", terminal.drawn) is None
