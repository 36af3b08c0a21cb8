"""Evidence for attribution in a Fetch and its response."""

from __future__ import annotations

from collections.abc import Iterable

from muster.gateway.apis.batches import summarize
from muster.gateway.apis.data.fetching.plan import Plan
from muster.gateway.apis.data.fetching.wanted import Wanted
from muster.gateway.attribution.account import Part as SentPart
from muster.gateway.listener.api import Call


def fetching(call: Call, plan: Plan) -> None:
    """Which partitions a connection fetches, and from where; a consumer that is led away fetches elsewhere."""
    connection, gateway, client_id = call.connection, call.gateway, call.header.client_id
    known = connection.attribution.fetches.get(client_id)
    if known is not None and (known.current is plan.offsets or known.current.keys() == plan.offsets.keys()):
        plan.offsets = known.current
        gateway.account.fetching_again(known, gateway.now_ms())
    elif not plan.items or plan.offsets or not plan.leads_away:
        gateway.account.fetching(connection.attribution, connection.host, client_id, plan.offsets, gateway.now_ms())


def parts_of(items: Iterable[Wanted]) -> list[SentPart]:
    """Return the records that a response carries."""
    parts: list[SentPart] = []
    for item in items:
        topic = item.named.topic
        if item.records and topic is not None:
            skipped = item.found.aborted_transactions if item.found is not None else None
            base_offset, last_offset, messages, batches, control, aborted = summarize(item.records, skipped or ())
            offset, size_bytes = item.fetch_offset, item.size_bytes
            first_offset = max(base_offset, offset)
            index = item.named.partition
            counts = (messages, size_bytes, batches, control, aborted)
            parts.append((topic.name, index, offset, first_offset, last_offset, *counts))
    return parts


def sent(call: Call, parts: Iterable[SentPart]) -> None:
    """Count them for the group that fetches: they are written to the socket now, not before."""
    connection, gateway, client_id = call.connection, call.gateway, call.header.client_id
    gateway.account.sent(connection.attribution, connection.host, client_id, parts, gateway.now_ms())
