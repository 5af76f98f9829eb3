"""`icdc demo`: tables, a pipeline, changes, a crash, and the proof that index and table are equal.

    1  OpenSearch and a Spark that writes start side by side
    2  three tables are made and filled
    3  one pipeline is applied, and exports all three
    4  eight changes, each waited for until every index equals its table
    5  a large change, during which the application is killed with SIGKILL
    6  `icdc verify` compares every document with its row

Everything is real and on this host: an OpenSearch node, a Spark that writes the tables, and the
application in a process of its own, driven by the same runner as `icdc run`.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from shutil import rmtree

import yaml

from icdc_api.errors import Bug, IcdcError
from icdc_api.job.answers import ComparisonEntry, RunAnswer, fill
from icdc_api.job.modes import RunMode
from icdc_cli import live, terminal
from icdc_cli.demo import scenario
from icdc_cli.demo.scenario import Change
from icdc_cli.demo.stage import Stage
from icdc_cli.embedded import class_data
from icdc_cli.embedded.lake import LakeProcess, build_jdbc_catalog
from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_cli.exits import Exit
from icdc_cli.local import application, resource
from icdc_cli.local.ask import ask
from icdc_cli.local.state_dir import StateDir
from icdc_cli.local.termination import raise_on_sigterm
from icdc_cli.tables import answer_tables, text_tables

KILL_AFTER_DOCUMENTS = 5000
"""Writes of the last batch that are let through before the application is killed: of 66,667, so
that the kill falls inside the batch on a fast host too."""


def run(arguments: argparse.Namespace) -> int:
    """Carry out the command; return 0 when every index equals its table."""
    folder = Path(tempfile.mkdtemp(prefix="icdc-demo-"))
    try:
        # Or the node would outlive a demo that a time-out of CI ends.
        with raise_on_sigterm():
            equal = _Demo(folder, keep=arguments.keep).play()
    # Logs are worth most when something went wrong, so nothing is removed then, nor after Ctrl-C,
    # which people press when nothing seems to go on.
    except (IcdcError, KeyboardInterrupt):
        sys.stderr.write(f"icdc: what the demo made stays in {folder}\n")
        raise
    if not arguments.keep:
        rmtree(folder, ignore_errors=True)
    return Exit.DONE if equal else Exit.STALLED


class _Demo:
    """One showing of the demo."""

    def __init__(self, folder: Path, *, keep: bool) -> None:
        self._folder = folder
        self._keep = keep
        self._began = time.monotonic()
        self._catalog = build_jdbc_catalog(folder / "catalog.db", folder / "warehouse")

    def play(self) -> bool:
        """Play the demo, from empty tables to the proof; return whether all indices equal them."""
        self._say("Starting an OpenSearch node and a Spark that writes the tables")
        quick = class_data.build_environment(os.environ)
        lake = LakeProcess(self._catalog, folder=self._folder / "lake", environment=quick)
        # Not awaited yet: Spark and OpenSearch take their seconds of starting side by side.
        lake.start()
        try:
            with OpenSearchNode(self._folder / "opensearch", keep=self._keep) as node:
                lake.wait_ready()
                self._say(f"OpenSearch {node.version} answers at {node.url}")
                self._fill(lake)
                path = self._write_pipeline(node.url)
                self._follow(lake, path, node.url)
                # Its memory is free before `verify` starts a JVM of its own.
                lake.stop()
                equal = self._verify(path)
                self._print_farewell(node, path)
                return equal
        finally:
            lake.stop()

    def _fill(self, lake: LakeProcess) -> None:
        self._say("Making three tables: orders (copy-on-write), customers (merge-on-read), events")
        for statement in (*scenario.CREATE, *scenario.FILL):
            lake.run_sql(statement)

    def _write_pipeline(self, url: str) -> Path:
        path = self._folder / "pipeline.yaml"
        path.write_text(
            yaml.safe_dump(scenario.build_pipeline(url, self._catalog), sort_keys=False)
        )
        return path

    def _follow(self, lake: LakeProcess, path: Path, url: str) -> None:
        self._say(f"Applying one pipeline for the three: {path}")
        view = live.choose_view(quiet=False)
        with (
            StateDir(self._folder / "state") as state,
            view,
            Stage(path, state, view, url) as stage,
        ):
            # Before the first change: the last one rolls the table back to here.
            start = lake.read_head(scenario.ROLLBACK_TABLE)
            self._settle(stage, lake)
            for change in scenario.CHANGES:
                self._change(stage, lake, change, start)
            self._crash(stage, lake)

    def _change(self, stage: Stage, lake: LakeProcess, change: Change, start: str | None) -> None:
        self._say(change.title)
        for statement in change.statements:
            lake.run_sql(statement.format(start=start))
        self._settle(stage, lake)

    def _crash(self, stage: Stage, lake: LakeProcess) -> None:
        self._say(scenario.CRASH.title)
        for statement in scenario.CRASH.statements:
            lake.run_sql(statement)
        killed = stage.kill_within_batch("orders", KILL_AFTER_DOCUMENTS)
        self._say(f"Killed {killed} with SIGKILL; the runner starts another, which carries on")
        self._settle(stage, lake)

    def _settle(self, stage: Stage, lake: LakeProcess) -> None:
        """Wait until every index equals its table, and print the status."""
        heads = {name.removeprefix("lake."): lake.read_head(name) for name in scenario.TABLES}
        # By snapshot and not by counts: a compaction changes no count, and must be applied too.
        stage.wait_applied(heads)
        terminal.say(text_tables.format_status(stage.status.tables))
        sys.stdout.flush()

    def _verify(self, path: Path) -> bool:
        self._say("icdc verify: every document is compared with its row")
        answer = ask(
            resource.load(path),
            RunMode.VERIFY,
            application=application.find_installed(),
            secrets_dir=None,
        )
        if not isinstance(answer, dict):
            raise Bug(f"verify did not answer: {answer.message}")
        terminal.say(answer_tables.format_comparison(answer))
        entries = [fill(ComparisonEntry, entry) for entry in fill(RunAnswer, answer)["tables"]]
        equal = all(entry["equal"] for entry in entries)
        # From the saved resource: the runner has ended, and its status with it.
        state = yaml.safe_load((self._folder / "state" / "pipeline.yaml").read_text())
        applied = state["status"]["tables"]
        upserted = sum(table["rowsUpserted"] for table in applied)
        deleted = sum(table["rowsDeleted"] for table in applied)
        sys.stdout.write(
            f"\nrows:            {sum(entry['rows'] or 0 for entry in entries):,} in 3 tables\n"
            f"changes applied: {upserted:,} documents written, {deleted:,} deleted\n"
            f"equal:           {'yes' if equal else 'NO'}, after {self._measure_seconds():.0f} s\n"
        )
        return equal

    def _print_farewell(self, node: OpenSearchNode, path: Path) -> None:
        search = f"curl '{node.url}/orders/_search?q=status:shipped&size=3&pretty'"
        if self._keep:
            sys.stdout.write(
                f"\nLook for yourself: {search}\n"
                f"Go on: icdc run -f {path} --state-dir {self._folder / 'state'}\n"
                f"Stop the node: {node.stop_command}\n"
            )
        else:
            sys.stdout.write(
                "\nTo look for yourself: make demo ARGS=--keep (icdc demo --keep). The node then\n"
                f"stays, and a search to try is printed, such as\n  {search}\n"
            )

    def _say(self, text: str) -> None:
        sys.stdout.write(f"\n[{self._measure_seconds():5.1f} s] {text}\n")
        # In a pipe, such as of CI, a step shows when it begins, and not with all others at the end.
        sys.stdout.flush()

    def _measure_seconds(self) -> float:
        return time.monotonic() - self._began
