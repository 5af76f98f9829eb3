"""Paths inside the pods of a run, and the names of the volumes mounted there: stated once.

The application reads its paths from the request; only APPLICATION_FILE is fixed by the image.
"""

import posixpath

APPLICATION_DIR = "/opt/iceberg-cdc-operator"
APPLICATION_FILE = f"{APPLICATION_DIR}/main.py"

PYTHON = "/opt/venv/bin/python"
"""Python of the image, in whose environment the application is installed."""

# The ConfigMap of the run is mounted at REQUEST_DIR, that of its question, while there is one, at
# QUESTION_DIR, a Secret NAME at SECRETS_DIR/NAME. REPORT_DIR
# is an empty volume, in which the driver keeps the file that its annotation is made from.
REQUEST_DIR = "/etc/icdc/run"
REQUEST_KEY = "request.json"
REQUEST_FILE = f"{REQUEST_DIR}/{REQUEST_KEY}"
QUESTION_DIR = "/etc/icdc/question"
QUESTION_KEY = "question.json"
QUESTION_FILE = f"{QUESTION_DIR}/{QUESTION_KEY}"
SECRETS_DIR = "/etc/icdc/secrets"
REPORT_DIR = "/var/run/icdc"
REPORT_FILE = f"{REPORT_DIR}/report.json"
TERMINATION_MESSAGE_FILE = "/dev/termination-log"

VOLUME_PREFIX = "icdc-"
REQUEST_VOLUME = f"{VOLUME_PREFIX}run"
QUESTION_VOLUME = f"{VOLUME_PREFIX}question"
REPORT_VOLUME = f"{VOLUME_PREFIX}report"
# Spark uses every mount whose volume name has this prefix for shuffle and spill.
LOCAL_VOLUME_PREFIX = "spark-local-dir-"

RESERVED_DIRS = (
    "/etc/icdc",
    "/var/lib/icdc",
    REPORT_DIR,
    APPLICATION_DIR,
    TERMINATION_MESSAGE_FILE,
)
"""Paths at or below which nothing else may be mounted."""


def name_secret_volume(position: int) -> str:
    """Return the volume of a Secret; by position, since the name of a Secret may be too long."""
    return f"{VOLUME_PREFIX}secret-{position}"


def name_secret_dir(secret: str) -> str:
    """Return the directory that has the keys of `secret` as files."""
    return f"{SECRETS_DIR}/{secret}"


def name_local_volume(number: int) -> str:
    """Return the volume for item `number` of `spec.spark.localVolumes`, counted from 1."""
    return f"{LOCAL_VOLUME_PREFIX}{number}"


def name_local_dir(number: int) -> str:
    """Return the directory at which local volume `number` is mounted."""
    return f"/var/lib/icdc/local-{number}"


def is_reserved(path: str) -> bool:
    """Return whether a mount at `path` would hide, or be hidden by, what a run needs."""
    # Two leading slashes have a meaning of their own for normpath, but not for Linux.
    plain = "/" + posixpath.normpath(path).lstrip("/")
    # In Debian images /var/run is a link to /run.
    if plain == "/run" or plain.startswith("/run/"):
        plain = f"/var{plain}"
    below = any(plain == path or plain.startswith(f"{path}/") for path in RESERVED_DIRS)
    # Unlike the other directories, the application is in the image: a mount above hides it.
    return below or APPLICATION_DIR.startswith(f"{plain.rstrip('/')}/")
