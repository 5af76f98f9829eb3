"""Where a run finds its things inside its pods, once: paths, and the names of their volumes.

The application learns its paths from the request alone; the image must hold APPLICATION_FILE.
"""

import posixpath

APPLICATION_DIR = "/opt/iceberg-cdc-operator"
APPLICATION_FILE = f"{APPLICATION_DIR}/main.py"

PYTHON = "/opt/venv/bin/python"
"""The image's own, which has the application."""

REQUEST_DIR = "/etc/icdc/run"
REQUEST_KEY = "request.json"
REQUEST_FILE = f"{REQUEST_DIR}/{REQUEST_KEY}"
SECRETS_DIR = "/etc/icdc/secrets"
REPORT_DIR = "/var/run/icdc"
REPORT_FILE = f"{REPORT_DIR}/report.json"
TERMINATION_MESSAGE_FILE = "/dev/termination-log"

VOLUME_PREFIX = "icdc-"
REQUEST_VOLUME = f"{VOLUME_PREFIX}run"
REPORT_VOLUME = f"{VOLUME_PREFIX}report"
# Spark takes every mount whose volume has a name with this prefix for shuffle and spill.
LOCAL_VOLUME_PREFIX = "spark-local-dir-"

RESERVED_DIRS = (
    "/etc/icdc",
    "/var/lib/icdc",
    REPORT_DIR,
    APPLICATION_DIR,
    TERMINATION_MESSAGE_FILE,
)
"""Nothing else may be mounted at or below these."""


def secret_volume(position: int) -> str:
    """Volume of one Secret; not named after it, since a Secret's name may be longer."""
    return f"{VOLUME_PREFIX}secret-{position}"


def secret_dir(secret: str) -> str:
    """Where the keys of that Secret are files."""
    return f"{SECRETS_DIR}/{secret}"


def local_volume(number: int) -> str:
    """Volume number 1, 2, … of `spec.spark.localVolumes`."""
    return f"{LOCAL_VOLUME_PREFIX}{number}"


def local_dir(number: int) -> str:
    """Where that volume is mounted."""
    return f"/var/lib/icdc/local-{number}"


def is_reserved(path: str) -> bool:
    """Whether a mount at `path` would cover, or be covered by, what a run needs."""
    # Two leading slashes have a meaning of their own for normpath, but not for Linux.
    plain = "/" + posixpath.normpath(path).lstrip("/")
    # In Debian's images /var/run is a link to /run.
    if plain == "/run" or plain.startswith("/run/"):
        plain = f"/var{plain}"
    below = any(plain == each or plain.startswith(f"{each}/") for each in RESERVED_DIRS)
    # The application alone is part of the image: a mount above it hides it.
    return below or APPLICATION_DIR.startswith(f"{plain.rstrip('/')}/")
