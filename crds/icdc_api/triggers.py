"""What a pipeline was asked by its nonces, as the status remembers it."""

from typing import Annotated

from pydantic import Field

from icdc_api.base import MAX_TABLES, ApiModel, Count, ShortText
from icdc_api.runs import ResyncMode


class ObservedResync(ApiModel):
    """The last resync that was asked for, as it was when its nonce was first acted on: what
    becomes of mode and tables in the spec afterwards changes nothing about it."""

    nonce: Count
    """`spec.resync.nonce`."""
    mode: ResyncMode
    """`spec.resync.mode` at that time."""
    tables: Annotated[tuple[ShortText, ...], Field(max_length=MAX_TABLES)] = ()
    """`spec.resync.tables` at that time; empty for all tables."""
    id: Count | None = None
    """Tells this request from every other one, also of the same nonce. Absent where the spec
    already had the nonce when it was seen first, such as after the status was lost: then a table
    that has honoured that nonce is not exported again."""


class ObservedTriggers(ApiModel):
    """The nonces of the spec that were already acted on."""

    restart_nonce: Count = 0
    """`spec.restartNonce` already acted on."""
    resync_nonce: Count = 0
    """`spec.resync.nonce` already acted on."""
    verified_nonce: Count = 0
    """`spec.resync.nonce` whose comparison was made or given up; see `Verified`."""
    resync: ObservedResync | None = None
    """The last resync that was asked for; absent when none was."""
