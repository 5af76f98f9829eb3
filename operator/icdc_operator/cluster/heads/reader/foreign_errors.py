"""Turn errors of pyiceberg and of its libraries into errors of this project.

Part 4 of `reader`: answer. Foreign texts are not repeated in messages: they may hold addresses with
passwords, or content of a file that is no metadata. The name of the class is enough to search by.

    NoSuchTableError, NoSuchNamespaceError      TableNotFound        stalls the table
    UnauthorizedError, ForbiddenError, …        Unauthorized         Secrets are read again
    a certificate that is not trusted           Unauthorized         the same
    AccessRefused, ImportError                  OutOfSight           only a run can read it
    connections, answers, files, memory         SourceUnavailable    tried again
"""

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import botocore.exceptions
import sqlalchemy.exc
import tenacity
import urllib3.exceptions
from pyiceberg import exceptions as foreign
from thrift.Thrift import TException

from icdc_api.errors import SourceUnavailable, TableNotFound, Unauthorized
from icdc_operator.cluster.heads.catalog_properties import OutOfSight
from icdc_operator.cluster.heads.reader.limits.addresses import AccessRefused

_NOT_THERE = (
    foreign.NoSuchTableError,
    foreign.NoSuchNamespaceError,
    foreign.NoSuchIdentifierError,
)
_UNNAMED = "the catalog, or of the store of its files,"
_REFUSED = (
    foreign.UnauthorizedError,
    foreign.ForbiddenError,
    foreign.AuthorizationExpiredError,
    foreign.OAuthError,
    foreign.SignError,
)
_OTHERS: tuple[type[Exception], ...] = (
    *(error for error in vars(foreign).values() if isinstance(error, type)),
    OSError,  # connections (requests'), files
    ValueError,  # answers and files that are not what they should be (pydantic's), bad addresses
    LookupError,
    TypeError,
    AttributeError,  # answers of another form, which libraries do not check
    NotImplementedError,
    EOFError,
    struct.error,  # answers of a metastore
    zlib.error,  # compressed files
    MemoryError,  # answers that are too much
    RecursionError,
    sqlalchemy.exc.SQLAlchemyError,
    tenacity.RetryError,
    urllib3.exceptions.HTTPError,
    botocore.exceptions.BotoCoreError,
    botocore.exceptions.ClientError,
    TException,
)


@contextmanager
def map_errors(what: str) -> Iterator[None]:
    """Raise errors of pyiceberg in the body as ours; `what` (a table, the catalog) begins them."""
    # From the most exact to the least: nearly all of the first are among _OTHERS too.
    try:
        yield
    except AccessRefused as error:
        raise OutOfSight(str(error)) from error
    except _NOT_THERE as error:
        raise TableNotFound(f"{what}: the catalog has no such table") from error
    except _REFUSED as error:
        raise Unauthorized(
            f"{what}: the catalog refuses access ({type(error).__name__})"
        ) from error
    except (ImportError, foreign.NotInstalledError) as error:
        raise OutOfSight("a Python library for this kind of catalog is not installed") from error
    except _OTHERS as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise Unauthorized(
                f"{what}: the TLS certificate of {_find_server(error) or _UNNAMED} is not trusted; "
                "catalog.tls.caFrom names a Secret with the authority that signed it (key ca.crt)"
            ) from error
        server = _find_server(error)
        where = f" at {server}" if server else ""
        raise SourceUnavailable(f"{what} cannot be read{where}: {type(error).__name__}") from error


def _find_server(error: Exception) -> str:
    """Return the host of the request that failed: an address may hold a password. Empty if the
    error does not know it."""
    request = getattr(error, "request", None)  # of requests
    url = getattr(request, "url", None) or getattr(error, "kwargs", {}).get("endpoint_url")
    return urlsplit(str(url or "")).hostname or ""
