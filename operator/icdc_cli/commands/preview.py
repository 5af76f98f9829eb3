"""`icdc preview`: documents of some rows as they would be indexed, in the loop of writing YAML.

Spark reads the table on this host; OpenSearch is not asked and need not exist, so the pipeline's
Secret for it is not needed either. It must not know how documents are made.

Of a pipeline in a cluster too: a run there could answer only by an object of the API, and rows must
not stand where whoever may read pods or pipelines reads them. So the spec and the Secrets of its
catalogs are read with the rights of the caller, and the catalog with the network of this host.

    shop.orders   index orders   snapshot 8130…
    _id 7
    {"order_id": 7, "status": "paid"}
    mapping
    {"dynamic": "strict", …}
"""

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icdc_api.errors import SourceUnavailable
from icdc_api.job.answers import PreviewEntry, RunAnswer, fill
from icdc_api.job.modes import MAX_PREVIEW_ROWS, PREVIEW_ROWS, RunMode
from icdc_api.status.runs import Failure
from icdc_cli import options, terminal
from icdc_cli.cluster import session
from icdc_cli.commands import plan_verify
from icdc_cli.tables.text_tables import NONE

if TYPE_CHECKING:
    from icdc_cli.local.resource import LocalPipeline


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "preview",
        help="show documents as they would be indexed",
        description="Shows the documents of some rows of each table as an export would index them: "
        "the _id, the fields, and the mapping of the index. Reads the tables; needs no OpenSearch. "
        "Rows with the same key are all shown, of which one becomes the document. "
        "Exit code 1 when a table has no document form, such as for an unknown column, 3 when a "
        "server does not answer. A pipeline "
        "in a cluster (NAME) is previewed on this host as well, so that no row is stored in the "
        "cluster: it takes Spark here, a catalog and files that this host reaches, and the "
        "permission to read the Secrets of the catalog, unless --secrets-dir has them. spec.spark "
        "is not used.",
    )
    session.add_target(parser, required=False)
    options.add_pipeline(parser, required=False)
    parser.add_argument(
        "--table",
        action="append",
        metavar="TABLE",
        help="only this table, as in spec.tables[].name; repeatable (default: all)",
    )
    parser.add_argument(
        "--rows",
        type=options.build_number_type(1, MAX_PREVIEW_ROWS),
        default=PREVIEW_ROWS,
        metavar="N",
        help=f"rows of each table, at most {MAX_PREVIEW_ROWS} (default: {PREVIEW_ROWS})",
    )
    options.add_verbose(parser)
    parser.set_defaults(command=preview)


def preview(arguments: argparse.Namespace) -> int:
    """Carry out `icdc preview`; return the exit code."""
    # Here and not above: they bring the models of a spec, which other commands do without.
    from icdc_cli.local import host, resource
    from icdc_cli.local.secrets import refuse_variables
    from icdc_cli.local.termination import raise_on_sigterm

    if plan_verify.is_of_file(arguments, "preview", file_options=["state_dir"]):
        local = resource.load(arguments.filename)
        options.check_tables(arguments.table or (), local.pipeline.spec, source=str(local.source))
        return _show(local.without_target(), arguments)
    # A directory that only its owner may enter, which Secrets do not outlive.
    with raise_on_sigterm(), tempfile.TemporaryDirectory(prefix="icdc-") as name:
        local = session.run_for(partial(_read_cluster, Path(name)), arguments)
        arguments.secrets_dir = arguments.secrets_dir or Path(name)
        refuse_variables(local, host.choose_secrets_dir(arguments.secrets_dir, local))
        return _show(local, arguments)


async def _read_cluster(
    directory: Path, target: session.Target, arguments: argparse.Namespace
) -> "LocalPipeline":
    """Return the pipeline without its target; its Secrets are then in `directory`, if needed."""
    from icdc_cli.cluster.secret_files import copy_secrets
    from icdc_cli.local import resource

    local = resource.copy_stored(await target.read_pipeline())
    options.check_tables(arguments.table or (), local.pipeline.spec, source=local.source)
    local = local.without_target()
    if arguments.secrets_dir is None:
        await copy_secrets(target, local.pipeline.spec, directory)
    return local


def _show(local: "LocalPipeline", arguments: argparse.Namespace) -> int:
    answer = plan_verify.ask_locally(
        local, arguments, RunMode.PREVIEW, only=arguments.table, rows=arguments.rows
    )
    code = plan_verify.show_answer(
        answer, arguments, format_preview, lambda table: bool(fill(PreviewEntry, table)["reason"])
    )
    if arguments.name is not None and not isinstance(answer, Failure):
        entries = (fill(PreviewEntry, table) for table in fill(RunAnswer, answer)["tables"])
        if any(entry["reason"] == SourceUnavailable.__name__ for entry in entries):
            terminal.complain(
                "icdc preview NAME reads on this host: what the message names must be reachable "
                "from here, not only from the cluster"
            )
    return code


def format_preview(result: Mapping[str, Any]) -> str:
    """Render the documents for a person, table after table."""
    entries = (fill(PreviewEntry, entry) for entry in fill(RunAnswer, result)["tables"])
    return "\n\n".join("\n".join(_format_table(entry)) for entry in entries)


def _format_table(entry: PreviewEntry) -> Iterator[str]:
    yield f"{entry['name']}   index {entry['index']}   snapshot {entry['snapshotId'] or NONE}"
    if entry["reason"]:
        yield f"{entry['reason']}: {entry['message']}"
        return
    for document in entry["documents"]:
        failed = document.get("failed")
        problem = f"   no document: the expression of the field `{failed}` fails on this row"
        routing = f"   _routing {document['_routing']}" if "_routing" in document else ""
        yield f"_id {document['_id']}{routing}{problem if failed else ''}"
        yield json.dumps(document["_source"], indent=2, ensure_ascii=False)
    if not entry["documents"]:
        yield "no row has a document"
    yield "mapping"
    yield json.dumps(entry["mapping"], indent=2, ensure_ascii=False)
