"""Provide what a command on this host needs around a pipeline: state directory, Secrets, a node.

`run`, `plan`, `verify` and `dead-letters` take these in the same order, and each for as long as it
works: directory and Secrets are checked before a node is started, which takes seconds and memory.

    embedded node of the pipeline     run                   plan, verify, dead-letters
    none runs                         started, and ended    started, and ended
    --keep left one                   joined, and left      joined, and left
    icdc run has one                  refused               joined: its end is theirs

Apart from the options that name them, so that a command about a cluster imports none of it.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from icdc_cli.embedded import node_files
from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_cli.local.resource import LocalPipeline
from icdc_cli.local.secrets import check_secrets
from icdc_cli.local.state_dir import STATE_HOME, StateDir


def choose_state_dir(given: Path | None, local: LocalPipeline) -> StateDir:
    """Return the state directory that was named, or the pipeline's own. Not locked yet.

    The default depends on the working directory, as .git and .venv do: two checkouts of one
    pipeline do not meet in it, and it is removed with the project.
    """
    return StateDir(STATE_HOME / local.key if given is None else given)


def choose_secrets_dir(given: Path | None, local: LocalPipeline) -> Path | None:
    """Return the directory of Secrets. BadSpec where one that the pipeline names is missing."""
    # Absolute, because the application works in another directory.
    directory = None if given is None else given.resolve()
    check_secrets(local, directory)
    return directory


@contextlib.contextmanager
def with_node(local: LocalPipeline, state: StateDir, *, keep: bool) -> Iterator[LocalPipeline]:
    """Yield the pipeline with a real host: of a node under `state` where it says `embedded`.

    The node ends with the context unless `keep`; one that an earlier run left is joined and
    stays. StartTimeout and Submission where it does not start.
    """
    if not local.pipeline.spec.sink.opensearch.embedded:
        yield local
        return
    with OpenSearchNode(state.node_path, keep=keep) as node:
        yield local.with_host(node.url)
        # To standard error: with --output json standard output holds one document.
        if keep:
            sys.stderr.write(
                f"OpenSearch keeps running at {node.url}; to stop it: {node.stop_command}\n"
            )


@contextlib.contextmanager
def with_node_to_ask(local: LocalPipeline, state: StateDir) -> Iterator[LocalPipeline]:
    """As `with_node`, for a question: it may be asked while `icdc run` follows the tables.

    So no lock is taken where a node runs, as none is for a pipeline with a host of its own.
    """
    if not local.pipeline.spec.sink.opensearch.embedded:
        yield local
    elif (there := node_files.find_running(state.node_path)) is not None:
        yield local.with_host(there.url)
    else:
        with state, with_node(local, state, keep=False) as hosted:
            yield hosted
