"""Finds out whether all of an index is shown to the pipeline's user.

A role of OpenSearch's security plugin may hide documents and fields, or mask their values, without
a word: searches answer about what is left. A comparison would report the rest as missing, and write
it again. It must not know why an index is read.
"""

from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.opensearch.client.http import BulkEndpoint, NoAnswerError
from icdc_spark.opensearch.client.retry import retry_passing
from icdc_spark.opensearch.client.target_errors import from_status, has_partial_view

_NOTHING = b""


def require_whole_view(connection: Connection, index: str) -> None:
    """Raise Unauthorized where a part of the index is hidden. Changes nothing.

    Any other refusal is left to who writes: reading needs no permission to write.
    """
    retry_passing(lambda: _check(connection, index))


def _check(connection: Connection, index: str) -> None:
    endpoint = BulkEndpoint(connection, opaque_id="icdc-view", pool=1)
    try:
        # The guard alone, which the plugin refuses by name to users with a part of the index.
        answer = endpoint.send(index, _NOTHING)
    except NoAnswerError as error:
        raise error.cause from error
    finally:
        endpoint.close()
    if has_partial_view(answer.text):
        raise from_status(answer.status, "security_exception", connection, reason=answer.text)
