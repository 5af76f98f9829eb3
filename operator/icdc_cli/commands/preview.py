"""`icdc preview`: documents of some rows as they would be indexed, in the loop of writing YAML.

Spark reads the table on this host; OpenSearch is not asked and need not exist, so the pipeline's
Secret for it is not needed either. It must not know how documents are made.

    shop.orders   index orders   snapshot 8130…
    _id 7
    {"order_id": 7, "status": "paid"}
    mapping
    {"dynamic": "strict", …}
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any

from icdc_api.job.answers import PreviewEntry, RunAnswer, fill
from icdc_api.job.modes import MAX_PREVIEW_ROWS, PREVIEW_ROWS, RunMode
from icdc_cli import options
from icdc_cli.commands import plan_verify
from icdc_cli.text_tables import NONE


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "preview",
        help="show documents as they would be indexed",
        description="Shows the documents of some rows of each table as an export would index them: "
        "the _id, the fields, and the mapping of the index. Reads the tables; needs no OpenSearch. "
        "Rows with the same key are all shown, of which one becomes the document. "
        "Exit code 1 when a table has no document form, such as for an unknown column.",
    )
    options.add_pipeline(parser)
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
    # Here and not above: it brings the models of a spec, which other commands do without.
    from icdc_cli.local import resource

    local = resource.load(arguments.filename)
    options.check_tables(arguments.table or (), local.pipeline.spec, source=str(local.source))
    answer = plan_verify.ask_locally(
        local.without_target(),
        arguments,
        RunMode.PREVIEW,
        only=arguments.table,
        rows=arguments.rows,
    )
    return plan_verify.show_answer(
        answer, arguments, format_preview, lambda table: bool(fill(PreviewEntry, table)["reason"])
    )


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
