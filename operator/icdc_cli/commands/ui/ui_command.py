"""`icdc ui`: starts the page, says where it is, and serves it until Ctrl-C."""

import argparse
import secrets
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from icdc_api.errors import BadSpec
from icdc_cli import options, terminal
from icdc_cli.cluster import session
from icdc_cli.exits import Exit

if TYPE_CHECKING:
    # Only for its type: `icdc --help` needs none of what makes the pages.
    from icdc_cli.commands.ui.readers import PipelineReader

TOKEN_BYTES = 24
"""Random bytes in the address: none can be guessed."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "ui",
        help="show pipelines as a page in the browser",
        description="Serves a page on this host alone, at an address with a random token, until "
        "Ctrl-C: pipelines with their tables, lag, exports, batches and runs, and for each problem "
        "its meaning and cure. It reads with your own permissions, and changes nothing.",
    )
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument(
        "-n",
        "--namespace",
        action="append",
        metavar="NAMESPACE",
        help="namespace of the pipelines; may occur several times (default: that of the context)",
    )
    scope.add_argument(
        "-A",
        "--all-namespaces",
        action="store_true",
        help="all namespaces; those that you may not list are named on the page",
    )
    scope.add_argument(
        "--state-dir", type=Path, metavar="DIR", help="a local run: the directory of icdc run"
    )
    session.add_context(parser)
    parser.add_argument(
        "--port",
        type=options.build_number_type(0, 65535),
        default=0,
        metavar="PORT",
        help="port on 127.0.0.1; 0, the default, takes a free one",
    )
    parser.add_argument("--no-browser", action="store_true", help="open no browser")
    options.add_verbose(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry out the command; return the exit code. BadSpec where nothing can be served."""
    # Here and not above, see TYPE_CHECKING.
    import webbrowser

    from icdc_cli.commands.ui.server import HOST, PageServer
    from icdc_cli.commands.ui.site import PageSite

    token = secrets.token_urlsafe(TOKEN_BYTES)
    site = PageSite(choose_reader(arguments), f"/{token}/")
    try:
        server = PageServer(arguments.port, site, token)
    except OSError as error:
        raise BadSpec(f"--port {arguments.port} cannot be used: {error.strerror}") from error
    url = f"http://{HOST}:{server.server_port}/{token}/"
    terminal.say(f"{url}\nCtrl-C ends it.")
    # Python buffers what goes to a pipe, and who waits there for the address would wait for ever.
    sys.stdout.flush()
    if not arguments.no_browser:
        # In a thread: a browser of the terminal returns when it is closed, and needs the page.
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        return Exit.DONE  # the only way to end it
    finally:
        server.server_close()
    return Exit.DONE


def choose_reader(arguments: argparse.Namespace) -> "PipelineReader":
    """Return what the arguments name. BadSpec for a kubeconfig that cannot be read."""
    from icdc_cli.cluster import kubeconfig
    from icdc_cli.commands.ui.readers import ClusterReader, LocalReader

    if arguments.state_dir is not None:
        return LocalReader(arguments.state_dir)
    env = session.choose_environment(arguments)
    context = kubeconfig.choose_context(env, arguments.context)
    if context.name is None and not kubeconfig.is_in_pod(env):
        raise kubeconfig.refuse_no_context(env)
    namespaces = tuple(arguments.namespace or (context.namespace,))
    return ClusterReader(
        env, context.name, None if arguments.all_namespaces else namespaces, context.namespace
    )
