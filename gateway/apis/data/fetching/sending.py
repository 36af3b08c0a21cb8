"""Sends the partitions of a fetch to the actor that owns them."""

from __future__ import annotations

from functools import partial

from muster.actors.wire.internal.channel import Channel, ChannelLost, OnFetched
from muster.actors.wire.internal.fetch import FetchedPartition, FetchRequest
from muster.gateway.apis.data.fetching.fetch import Fetch
from muster.gateway.apis.data.fetching.plan import REPLACED, Part
from muster.gateway.listener.api import Cancel

GRACE_S = 10.0
MAX_SENT_BYTES = 1 << 20
"""Limit of records that an actor sends, in memory until the client takes them; one batch, if it is larger."""


def request_of(fetch: Fetch, part: Part, *, by_place: bool, max_wait_ms: int, min_bytes: int) -> FetchRequest:
    """Return the request to the actor, which responds once it has ``min_bytes``, or the time has passed."""
    isolation_level = fetch.request.isolation_level
    max_bytes = fetch.max_bytes if by_place else min(fetch.max_bytes, MAX_SENT_BYTES)
    return FetchRequest(by_place, max_wait_ms, min_bytes, max_bytes, (), isolation_level, part.packed)


def send(channel: Channel, part: Part, request: FetchRequest, on_fetched: OnFetched) -> Cancel:
    """Send the request to the part's actor; return a function that gives it up. Raises NotSent."""
    timeout_s = request.max_wait_ms / 1000 + GRACE_S
    return partial(channel.cancel, channel.fetch(request, on_fetched, timeout_s=timeout_s, last=part.last))


def is_replaced(found: list[FetchedPartition] | ChannelLost) -> bool:
    """Whether the actor is lost, or about to be replaced."""
    return isinstance(found, ChannelLost) or all(part.error_code is REPLACED for part in found)
