"""Take from a reader of catalogs what it does not need: variables, files, memory, processor time.

Part 1 of `reader`: confine. Each limit holds without the others. Where the kernel has no Landlock
(before Linux 5.13, or switched off) a child may read what its user may; in the chart's pod the
token is mounted in another container. It must not know what a catalog is.

    build_environment()         once, in the parent: no variable of Kubernetes, none of a cloud role
    confine()                   in each child: death signal, no ptrace, Landlock, no files,
                                bounded memory
    allow_processor_seconds()   before each question
"""

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from icdc_operator.cluster.heads.reader.limits import landlock

MEMORY_BYTES = 256 * 2**20
"""Memory that a child may allocate beyond what it shares with its parent."""

OPEN_FILES = 64
"""Files and sockets at a time: one catalog, its store, and what libraries read."""

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
"""Folders of / that are closed. The others hold programs and mounts of an administrator."""
_NEEDED = tuple(map(Path, ("/dev/null", "/dev/urandom", "/etc/resolv.conf")))
"""/etc/resolv.conf may be a link into /run (systemd-resolved), which is closed."""

# prctl(2): PR_SET_PDEATHSIG and PR_SET_DUMPABLE, which Python has no names for.
_SET_DEATH_SIGNAL, _SET_DUMPABLE = 1, 4


def build_environment(given: Mapping[str, str], *, cloud_role: bool) -> dict[str, str]:
    """Return the variables for readers of catalogs: none of Kubernetes, none of a cloud role."""
    variables = {
        name: value
        for name, value in given.items()
        if name.upper() in _VARIABLES or (cloud_role and name.startswith(_OF_CLOUD_ROLES))
    }
    if not cloud_role:
        variables["AWS_EC2_METADATA_DISABLED"] = "true"
    # No file of a user's folder chooses profiles, processes or passwords.
    return {**variables, "HOME": "/nonexistent"}


def confine(environ: Mapping[str, str], *, local_files: bool) -> None:
    """Confine this child process. Nothing takes that back."""
    # Before Landlock: /proc cannot be read afterwards.
    memory = _read_data_bytes() + MEMORY_BYTES
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    # Its memory holds credentials. Not dumpable means no ptrace and no /proc/PID/mem for others
    # of the same user (prctl(2), PR_SET_DUMPABLE).
    libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0)
    if not local_files:
        landlock.restrict(_list_readable(environ))
    # No dump of memory with credentials in it, and no byte written to any file.
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, 0)
    limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    # RLIMIT_DATA, not RLIMIT_AS: libraries reserve much address space and use little of it.
    limit(resource.RLIMIT_DATA, memory)


def limit(what: int, most: int) -> None:
    """Lower a limit of this process for good."""
    _, hard = resource.getrlimit(what)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (most, most))


def allow_processor_seconds(seconds: int) -> None:
    """Grant so many seconds from now on; the kernel kills a process that takes more.

    RLIMIT_CPU counts from the start of the process, so what was used already is added.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    spent = int(used.ru_utime + used.ru_stime) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (spent + seconds, hard))


def _list_readable(environ: Mapping[str, str]) -> Iterator[Path]:
    root = Path("/")
    yield from (folder for folder in root.iterdir() if folder.name not in _PRIVATE)
    yield from _NEEDED
    code = (*sys.path, sys.prefix, sys.base_prefix)
    named = (environ.get(name) for name in _NAMES_A_FILE)
    yield from (Path(path) for path in (*code, *named) if path)
    # The folder, not the file: the kubelet renews a token by a new file and a changed link.
    tokens = (value for name, value in environ.items() if name.endswith("_TOKEN_FILE"))
    yield from (Path(path).parent for path in tokens)


def _read_data_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    return pages * os.sysconf("SC_PAGE_SIZE")
