"""Gives the user of a container a name, where its platform chose an id that no file knows.

Hadoop's client, which Spark starts with, asks the C library for the name of its user, and ends with
"Invalid UID" where there is none. OpenShift gives each namespace user ids of its own; anybody may
set another one in a pod's template. `/etc/passwd` is not ours to write then, so a library that is
loaded before the C library's own answers from a file with one line more:

    /etc/passwd           icdc:x:185:185::/tmp:/usr/sbin/nologin
    ours                  the same, and icdc-1000680000:x:1000680000:0::/tmp:/usr/sbin/nologin
"""

import os
import pwd
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

PRELOAD = "LD_PRELOAD"
LIBRARY = "libnss_wrapper.so"
"""Of the package libnss-wrapper, found as any other library; see Dockerfile."""
PASSWD, GROUP = "NSS_WRAPPER_PASSWD", "NSS_WRAPPER_GROUP"
"""Where that library reads; it does nothing unless both are set."""


def add_name(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a program that finds a name for its user; unchanged if it has one.

    The file is in the temporary directory, which the programs that this one starts can read too.
    """
    user = os.geteuid()
    try:
        pwd.getpwuid(user)
    except KeyError:
        line = f"icdc-{user}:x:{user}:{os.getegid()}::/tmp:/usr/sbin/nologin\n"
    else:
        return dict(environment)
    try:
        known = Path("/etc/passwd").read_text(encoding="utf-8")
        with tempfile.NamedTemporaryFile("w", prefix="passwd-", delete=False) as names:
            names.write(known + line)
    except OSError as error:
        # Hadoop ends with "Invalid UID"; this line is why.
        sys.stderr.write(f"user {user} has no name, and gets none: {error}\n")
        return dict(environment)
    loaded = " ".join(filter(None, (LIBRARY, environment.get(PRELOAD))))
    return {**environment, PRELOAD: loaded, PASSWD: names.name, GROUP: "/etc/group"}
