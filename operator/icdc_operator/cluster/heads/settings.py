"""Access rights of the readers of catalogs, and the flags for them. Opens nothing.

The operator and `icdc-heads` have the same flags: an operator without the container `heads` starts
the process by itself and hands its settings on.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from icdc_operator.cluster.heads.catalog_properties import OutOfSight

ALLOW, DENY = "--heads-allow-host", "--heads-deny-host"
CLOUD_ROLE, LOCAL_FILES = "--heads-use-cloud-role", "--heads-local-files"


@dataclass(frozen=True)
class ReaderSettings:
    """The access of every catalog's reader."""

    allow_hosts: tuple[str, ...] = ()
    """Names, addresses or networks that may be connected to, with wildcards; checked first."""
    deny_hosts: tuple[str, ...] = ()
    """Those that may not. All others are allowed, except `addresses.REFUSED`."""
    use_cloud_role: bool = False
    """Whether catalogs without keys may use the cloud role of this pod or host."""
    local_files: bool = False
    """Whether metadata files and SQLite databases of this pod or host may be read."""

    @property
    def flags(self) -> Sequence[str]:
        """Return these settings as arguments of a command line."""
        return [
            # As one argument: argparse would take a pattern that begins with a dash for a flag.
            *(f"{ALLOW}={pattern}" for pattern in self.allow_hosts),
            *(f"{DENY}={pattern}" for pattern in self.deny_hosts),
            *([CLOUD_ROLE] if self.use_cloud_role else []),
            *([LOCAL_FILES] if self.local_files else []),
        ]

    def require_cloud_role(self, what: str) -> None:
        """Raise OutOfSight where the operator's own role must not be used."""
        if not self.use_cloud_role:
            raise OutOfSight(
                f"no keys for {what} are given, and pipelines may not use the operator's cloud "
                "role (chart: heads.useCloudRole)"
            )

    def require_local_files(self) -> None:
        """Raise OutOfSight where files of this pod or host must not be read."""
        if not self.local_files:
            raise OutOfSight(
                "pipelines may not use files of the operator's pod or host (chart: "
                "heads.localFiles)"
            )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `ReaderSettings`."""
    parser.add_argument(ALLOW, metavar="PATTERN", action="append", default=[])
    parser.add_argument(DENY, metavar="PATTERN", action="append", default=[])
    parser.add_argument(CLOUD_ROLE, action="store_true")
    parser.add_argument(LOCAL_FILES, action="store_true")


def build_settings(given: argparse.Namespace) -> ReaderSettings:
    """Return the settings of parsed flags, of `icdc-heads` or of the operator."""
    return ReaderSettings(
        allow_hosts=tuple(given.heads_allow_host),
        deny_hosts=tuple(given.heads_deny_host),
        use_cloud_role=given.heads_use_cloud_role,
        local_files=given.heads_local_files,
    )
