"""Looks for the Secrets that a pipeline names before anything is started that would need them.

In a cluster the kubelet holds a pod back until its Secrets exist. Here the application would find
out after a JVM has started, and would retry every ten minutes, since somebody may be about to mend
it. On a host that somebody is the person at the keyboard.
"""

from collections.abc import Iterator
from pathlib import Path

from icdc_api.crd import explain
from icdc_api.errors import BadSpec, Unauthorized
from icdc_api.spec.secrets import (
    describe_missing_keys,
    load_catalog_properties,
    read_secret,
)
from icdc_cli.local.resource import LocalPipeline
from icdc_operator.manifests.secret_names import list_secret_fields

_VARIABLE = "env:"
"""What stands before the name of a variable, in properties of REST catalogs."""


def check_secrets(local: LocalPipeline, secrets_dir: Path | None) -> None:
    """Raise BadSpec, with a line for each field whose Secret `secrets_dir` does not have."""
    # All of them at once: with three Secrets missing, three attempts would be a nuisance.
    problems = list(_list_problems(local, secrets_dir))
    if problems:
        raise BadSpec(explain.format_lines(problems, source=local.source))


def refuse_variables(local: LocalPipeline, secrets_dir: Path | None) -> None:
    """Raise BadSpec for a catalog property that Iceberg would replace by a variable of this host.

    `header.x: env:AWS_SECRET_ACCESS_KEY` sends it to whatever `uri` names, and the author of a
    pipeline in a cluster need not be who asks about it. The Secrets must be there.
    """
    spec = local.pipeline.spec
    for table in spec.tables:
        properties = load_catalog_properties(spec.get_catalog(table), secrets_dir)
        for name, value in properties.items():
            if value.startswith(_VARIABLE):
                raise BadSpec(
                    f"{local.source}: the catalog of {table.name}: {name}: a value that begins "
                    f"with {_VARIABLE} is a variable of this host, and allowed only in a file (-f)"
                )


def _list_problems(local: LocalPipeline, secrets_dir: Path | None) -> Iterator[str]:
    for field, name in list_secret_fields(local.pipeline.spec):
        try:
            keys = read_secret(secrets_dir, name).keys()
        except (BadSpec, Unauthorized) as error:
            yield f"{field}: {error.message}"
            continue
        if missing := describe_missing_keys(field, frozenset(keys)):
            yield (
                f"{field}: the Secret {name!r} has no {missing}; write it into a file "
                f"{secrets_dir}/{name}/KEY"
            )
