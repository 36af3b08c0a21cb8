"""``GET /v1/attribution``: the bytes that this gateway sent and took since it started, summed up over partitions.

``{"gateway", "at_ms", "incarnation", "groups": [[GROUP, TOPIC, EVIDENCE, MESSAGES, BYTES], ...], "reasons": [[REASON,
TOPIC, MESSAGES, BYTES], ...], "pending": [[TOPIC, MESSAGES, BYTES], ...], "removed": [...], "produced": [...],
"principals": [[PRINCIPAL, TOPIC, MESSAGES, BYTES], ...], "hidden_bytes"}``. Everything but ``pending`` counts upwards
until ``incarnation`` changes; ``groups`` loses groups that are gone, to ``removed``
(:mod:`muster.gateway.attribution.series`). All fetched bytes are in exactly one of ``groups``, ``reasons``,
``pending``, ``removed`` and ``hidden_bytes``, which has those whose group or topic the caller may not DESCRIBE. Long
names of groups are cut as in /metrics.

``principals`` has the fetched bytes once more, by who fetched them; those of others are for who may DESCRIBE the
cluster. Beyond 10,000 pairs of principal and topic, the others have an empty name.

The sums are at most a second old, whatever the number of callers. The cluster's sums are those of all gateways.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from aiohttp import web

from muster.gateway.attribution.account import Snapshot
from muster.gateway.attribution.series import group_label
from muster.gateway.http.callers import Caller, current_caller
from muster.gateway.http.groups import as_json
from muster.gateway.listener.gateway import Gateway
from muster.gateway.metrics.fetch import OVERFLOW, Amounts

_FRESH_S = 1.0
_NOT_IN_SUM = ("produced", "principals")
"""Parts that are not of the sum of fetched bytes."""
Amount = tuple[int, int]
"""Messages and bytes."""
Row = list[Any]


class Sums(NamedTuple):
    """Messages and bytes, summed up over partitions."""

    at_ms: int
    groups: Mapping[tuple[str, str, str], Amount]
    """By group, topic and evidence."""
    reasons: Mapping[tuple[str, str], Amount]
    """By reason and topic."""
    pending: Mapping[tuple[str], Amount]
    removed: Mapping[tuple[str], Amount]
    produced: Mapping[tuple[str], Amount]
    principals: Mapping[tuple[str, str], Amount]
    """By principal and topic."""


class _Shared:
    """The sums of one gateway, which requests within a second share."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._lock = asyncio.Lock()
        self._sums: Sums | None = None

    async def sums(self) -> Sums:
        async with self._lock:
            if self._sums is None:
                at_ms, books = self._gateway.now_ms(), self._gateway.account.snapshot()
                produced = self._gateway.metrics.produced_by_topic()
                self._sums = await asyncio.to_thread(sums_of, books, produced, at_ms)
                asyncio.get_running_loop().call_later(_FRESH_S, self._forget)
            return self._sums

    def _forget(self) -> None:
        self._sums = None


def add_routes(app: web.Application, gateway: Gateway) -> None:
    """Serve the route of this module; the app has not been started yet."""
    shared, incarnation = _Shared(gateway), secrets.token_hex(8)

    async def attribution(_request: web.Request) -> dict[str, Any]:
        sums, caller = await shared.sums(), current_caller()
        seen = await asyncio.to_thread(seen_by, caller, sums)
        return {"gateway": gateway.id, "at_ms": sums.at_ms, "incarnation": incarnation, **seen}

    app.router.add_get("/v1/attribution", as_json(attribution))


def sums_of(books: Snapshot, produced: Mapping[str, Amount], at_ms: int) -> Sums:
    """Return the sums of the account's books."""
    without_series = ((OVERFLOW, topic, total) for (topic, _), total in books.overflow.items())
    by_reason = ((reason.value, topic, total) for (reason, topic, _), total in books.reasons.items())
    return Sums(
        at_ms,
        _summed(
            ((group_label(group), topic, evidence.value), total)
            for (group, evidence, topic, _), total in books.groups.items()
        ),
        _summed(((reason, topic), total) for each in (by_reason, without_series) for reason, topic, total in each),
        _summed(((topic,), amount) for (topic, _), amount in books.pending.items() if amount.messages or amount.bytes),
        _summed(((topic,), total) for (topic, _), total in books.removed.items()),
        {(topic,): amount for topic, amount in produced.items()},
        _summed(books.principals.items()),
    )


def _summed(amounts: Iterable[tuple[Any, Amounts]]) -> dict[Any, Amount]:
    found: dict[Any, Amount] = {}
    for key, amount in amounts:
        messages, size_bytes = found.get(key, (0, 0))
        found[key] = messages + amount.messages, size_bytes + amount.bytes
    return found


def seen_by(caller: Caller, sums: Sums) -> dict[str, Any]:
    """Return what the caller sees of the sums, and the number of fetched bytes that are hidden."""
    sees_group, sees_topic = cache(caller.sees_group), cache(caller.sees_topic)
    sees_principal = cache(lambda principal: principal == caller.principal or caller.sees_cluster())
    found: dict[str, Any] = {}
    hidden_bytes = 0
    for name, sees, amounts in _parts(sums, sees_group, sees_topic, sees_principal):
        rows: list[Row] = []
        for key, (messages, size_bytes) in amounts.items():
            if sees(key):
                rows.append([*key, messages, size_bytes])
            elif name not in _NOT_IN_SUM:
                hidden_bytes += size_bytes
        found[name] = rows
    return {**found, "hidden_bytes": hidden_bytes}


def _parts(
    sums: Sums,
    sees_group: Callable[[str], bool],
    sees_topic: Callable[[str], bool],
    sees_principal: Callable[[str], bool],
) -> Iterator[tuple[str, Callable[[Any], bool], Mapping[Any, Amount]]]:
    yield "groups", lambda key: sees_topic(key[1]) and sees_group(key[0]), sums.groups
    yield "reasons", lambda key: sees_topic(key[1]), sums.reasons
    yield "principals", lambda key: sees_topic(key[1]) and sees_principal(key[0]), sums.principals
    for name, amounts in (("pending", sums.pending), ("removed", sums.removed), ("produced", sums.produced)):
        yield name, lambda key: sees_topic(key[0]), amounts
