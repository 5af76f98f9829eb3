"""Takes from a reader of catalogs what it does not need: variables, files, memory, processors.

Each holds by itself. Where the kernel has no Landlock (before Linux 5.13, or switched off) a child
may read what its user may; in the chart's pod the token is in another container.
"""

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from icdc_operator.cluster.heads.reader import landlock

MEMORY_BYTES = 256 * 2**20
"""What a child may take for itself, on top of what all share."""

OPEN_FILES = 64

_VARIABLES = frozenset(
    {
        *("PATH", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "VIRTUAL_ENV"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
        *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CA_BUNDLE"),
        *("AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT"),
    }
)
_OF_CLOUD_ROLES = ("AWS_", "AZURE_", "GOOGLE_")
_NAMES_A_FILE = frozenset(
    {
        *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        *("AWS_CA_BUNDLE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_SHARED_CREDENTIALS_FILE"),
        *("AWS_CONFIG_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
        *("AZURE_FEDERATED_TOKEN_FILE", "GOOGLE_APPLICATION_CREDENTIALS"),
    }
)
_PRIVATE = frozenset(
    {"dev", "home", "media", "mnt", "proc", "root", "run", "srv", "sys", "tmp", "var"}
)
"""Of the root folder: the others hold programs, and what an administrator mounts for catalogs."""
_NEEDED = tuple(map(Path, ("/dev/null", "/dev/urandom", "/etc/resolv.conf")))
"""Names are looked up by the last one, which may lead into /run."""

_SET_DEATH_SIGNAL, _SET_DUMPABLE = 1, 4


def environment(given: Mapping[str, str], *, cloud_role: bool) -> dict[str, str]:
    """Return the variables for readers of catalogs: none of Kubernetes, none of a cloud role."""
    kept = {
        name: value
        for name, value in given.items()
        if name.upper() in _VARIABLES or (cloud_role and name.startswith(_OF_CLOUD_ROLES))
    }
    if not cloud_role:
        kept["AWS_EC2_METADATA_DISABLED"] = "true"
    # No file of a user's folder chooses profiles, processes or passwords.
    return {**kept, "HOME": "/nonexistent"}


def confine(environ: Mapping[str, str], *, local_files: bool) -> None:
    """Confine this process, which is a child, for good."""
    memory = _data_bytes() + MEMORY_BYTES  # /proc cannot be read later
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    # Its memory holds credentials: other children of the same user may not look into it.
    libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0)
    if not local_files:
        landlock.restrict(_readable(environ))
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, 0)
    limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    # Address space is no measure: libraries reserve much of it and use little.
    limit(resource.RLIMIT_DATA, memory)


def limit(what: int, most: int) -> None:
    """Lower a limit of this process for good."""
    _, hard = resource.getrlimit(what)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (most, most))


def allow_processor_seconds(seconds: int) -> None:
    """From now on; the kernel ends the process that takes more."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    spent = int(used.ru_utime + used.ru_stime) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (spent + seconds, hard))


def _readable(environ: Mapping[str, str]) -> Iterator[Path]:
    root = Path("/")
    yield from (each for each in root.iterdir() if each.name not in _PRIVATE)
    yield from _NEEDED
    code = (*sys.path, sys.prefix, sys.base_prefix)
    named = (environ.get(name) for name in _NAMES_A_FILE)
    yield from (Path(each) for each in (*code, *named) if each)
    # A token is renewed as another file beside it.
    tokens = (value for name, value in environ.items() if name.endswith("_TOKEN_FILE"))
    yield from (Path(each).parent for each in tokens)


def _data_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    return pages * os.sysconf("SC_PAGE_SIZE")
