"""Writes docs/spark-properties.md from the tables that decide which properties a pipeline may set.

So the page cannot differ from what the operator refuses, and each reason stands in one place: users
read it in the page and in the message of a refusal.

`--check` fails where the page differs, `--write` writes it.
"""

import sys
from collections.abc import Iterator, Mapping

from icdc_api.spec import spark_conf
from pages import ROOT, write_or_check

_TOP = """\
<!-- Made from crds/icdc_api/spec/spark_conf.py by `make crds`. Do not edit. -->
# Spark properties of a pipeline

`spec.spark.conf` accepts only the properties of this page. Most properties act only in driver and
executors, which belong to the pipeline. Some act in spark-operator's pod, where spark-submit runs
for all tenants of a cluster: it would read files and fetch archives there with the permissions of
that pod. Others would change what a run writes. A star (`*`) matches any end of a name. If several
entries match a name, the first one counts, in the order refused, trusted, allowed.

No value may contain a `file:` URI or a variable such as `${env:NAME}`: both would refer to the
process that reads them. `spark.eventLog.dir` must be the URI of a folder in an object store or
HDFS. `spark.jars`, `spark.files`, `spark.archives` and `spark.jars.repositories` must name whole
URIs, of any scheme but `file`, `http` and `ftp`; `local:///…` is a file in the image.
"""
_ALLOWED = """
## Allowed

| properties | what for |
|---|---|
"""
_TRUSTED = """
## Allowed in trusted namespaces

In a cluster these properties are allowed only in namespaces that the chart value
`trustedNamespaces` names (`--trusted-namespace` of `icdc-operator`). Whoever may write pipelines in
such a namespace can use what spark-operator's pod has access to. With `icdc run -f` they are always
allowed, because the run is on your own machine.

| properties | why |
|---|---|
"""
_FLAGS = """
These JVM flags are harmless, and so allowed everywhere in `extraJavaOptions`. Separate them with
spaces, without quotes:
"""
_REFUSED = """
## Refused

| properties | why, or what to use |
|---|---|
"""


def render_page() -> str:
    """Return the whole page: allowed, trusted, refused, by reasons in the order of the tables."""
    flags = "".join(f"- `{flag}`\n" for flag in spark_conf.HARMLESS_FLAGS)
    # These properties are in the table of allowed ones. A flag in their value decides whether a
    # namespace must be trusted, so the table of trusted ones has no entry for them.
    jvm = {spark_conf.Risk.JVM: "spark.{role}.extraJavaOptions spark.{role}.defaultJavaOptions"}
    return "".join(
        (
            *(_TOP, _ALLOWED, *_render_rows(spark_conf.ALLOWED)),
            *(_TRUSTED, *_render_rows({**spark_conf.TRUSTED, **jvm}), _FLAGS, "\n", flags),
            *(_REFUSED, *_render_rows(spark_conf.REFUSED)),
        )
    )


def _render_rows(entries: Mapping[spark_conf.Why, str]) -> Iterator[str]:
    """Yield a row of a table for each reason, with all names that have it."""
    for why, names in entries.items():
        shown = ", ".join(f"`{name}`" for name in spark_conf.expand_names(names))
        yield f"| {shown} | {why} |\n"


if __name__ == "__main__":
    sys.exit(write_or_check({ROOT / spark_conf.DOCUMENT: render_page}, "crds"))
