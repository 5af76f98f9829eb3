"""All that is checked on a host: what is read first, and then judged."""

from pathlib import Path

from icdc_api.crd.loading import STANDARD_INPUT
from icdc_api.errors import BadSpec
from icdc_cli.doctor.findings import Finding
from icdc_cli.doctor.host import host_checks, host_facts, target_checks, target_facts


def examine_host(path: Path, secrets_dir: Path | None) -> list[Finding]:
    """Return the findings about this host and the pipeline in `path`.

    BadSpec for a file that does not exist: that is the command line's mistake, not the host's.
    """
    # A pipe of the shell, as of `<(helm template …)`, exists and is no file; a directory is found
    # out by reading it, with its own message.
    if path != STANDARD_INPUT and not path.exists():
        raise BadSpec(f"there is no file {path}")
    directory = None if secrets_dir is None else secrets_dir.resolve()
    facts = host_facts.read_host(path, directory)
    findings = list(host_checks.list_findings(facts))
    # A spec that is refused names no OpenSearch that could be asked.
    if not isinstance(facts.spec, BadSpec):
        findings += target_checks.list_findings(target_facts.read_target(facts.spec, directory))
    return findings
