"""Access to OpenSearch with the credentials that the mounted Secrets hold now.

Passwords and certificates are rotated while a continuous run goes on. Kubernetes then replaces the
files of a Secret; their stamps, for which no file is read, show when. It must not know tables:
whoever holds an `Access` asks for the newest one before it begins something.
"""

import logging
import threading
from dataclasses import dataclass
from pathlib import Path

from icdc_api.errors import IcdcError
from icdc_api.spec import sink
from icdc_api.spec.secrets import stamp_secrets
from icdc_spark.opensearch.client.connection import Connection, from_spec
from icdc_spark.opensearch.stores.state_store import StateStore

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Access:
    """The access with the content of the Secrets at one time; compared as an object."""

    connection: Connection
    """Where OpenSearch is, with the credentials that were valid when it was opened."""
    store: StateStore
    """The state documents, through that connection."""


class Rotation:
    """The newest access of one run, for the threads of all tables."""

    def __init__(self, spec: sink.OpenSearch, secrets_dir: Path | None) -> None:
        """Read the Secrets; Unauthorized or BadSpec where they do not hold what they should."""
        self._spec = spec
        self._secrets_dir = secrets_dir
        self._lock = threading.Lock()
        self._stamp = stamp_secrets(secrets_dir)
        self._given = [self._open()]

    def get_newest(self) -> Access:
        """Return the access to use from now on.

        The same object as before, unless a Secret (of OpenSearch or of a catalog) has changed.
        """
        with self._lock:
            newest_stamp = stamp_secrets(self._secrets_dir)
            if newest_stamp != self._stamp:
                # Before they are read: a Secret that cannot be used is reported once.
                self._stamp = newest_stamp
                try:
                    self._given.append(self._open())
                except IcdcError as error:
                    # Such as a Secret without a password: the old credentials may still hold.
                    LOG.warning(
                        "the changed Secrets cannot be used, so the run continues with the "
                        "previous ones: %s",
                        error,
                    )
            # Older ones stay open: threads of other tables may be in the middle of a request.
            return self._given[-1]

    def close(self) -> None:
        """Close the sockets of every access: threads may still hold an older one."""
        for access in self._given:
            access.store.close()

    def _open(self) -> Access:
        connection = from_spec(self._spec, self._secrets_dir)
        return Access(connection, StateStore(connection))
