"""The quotas of one gateway's clients, and what they have used. Times are ms and never go back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from muster.gateway.quotas.limits import ABSENT, Limits, QuotaKey, Who
from muster.gateway.quotas.measures import MAX_NAME_CHARS, Measures, short
from muster.gateway.quotas.rate import Rate, TokenBucket, Window
from muster.gateway.quotas.throttles import Throttles

_NS_PER_PERCENT = 1e7
"""Nanoseconds in one percent of a thread's second."""
_MAX_CLIENTS = 10_000
GROUP_BYTE_RATE = "group_byte_rate"
"""The quota of a consumer group, which Kafka does not have."""


class _Key(NamedTuple):
    quota: str
    shared_by: Who


class Meter:
    """One quota of a client, with the measure that it shares."""

    __slots__ = ("_key", "_measures", "_throttles", "quota")

    def __init__(self, quota: float, key: _Key, measures: Measures[_Key, Rate], throttles: Throttles) -> None:
        self.quota = quota
        self._key = key
        self._measures = measures
        self._throttles = throttles

    def charge(self, amount: float, now_ms: int, max_ms: int | None = None) -> int:
        """Add what was used; returns for how long the client has to pause, at most ``max_ms``."""
        throttle_ms = self._measures.get(self._key, now_ms).charge(amount, self.quota, now_ms)
        if max_ms is not None and throttle_ms > max_ms:
            throttle_ms = max_ms
        if throttle_ms:
            self._throttles.add(self._key.quota, self._key.shared_by, throttle_ms)
        return throttle_ms

    def record(self, amount: float, now_ms: int) -> None:
        """Add what was used, or take back what was charged and is not used after all (negative)."""
        self._measures.get(self._key, now_ms).record(amount, now_ms)

    def is_unused(self, now_ms: int) -> bool:
        """Whether nothing is charged in the current window."""
        return self._measures.get(self._key, now_ms).is_empty(now_ms)


class MutationMeter:
    """The quota of a client's administrative changes, in partitions per second (KIP-599)."""

    __slots__ = ("_buckets", "_key", "_throttles", "quota")

    def __init__(self, quota: float, key: _Key, buckets: Measures[_Key, TokenBucket], throttles: Throttles) -> None:
        self.quota = quota
        self._key = key
        self._buckets = buckets
        self._throttles = throttles

    def take(self, partitions: int, now_ms: int) -> None:
        """Charge a change; the bucket may be overdrawn."""
        self._buckets.get(self._key, now_ms).take(partitions, self.quota, now_ms)

    def throttle_ms(self, now_ms: int) -> int:
        """For how long it is overdrawn."""
        return self._buckets.get(self._key, now_ms).throttle_ms(self.quota, now_ms)

    def throttled(self, throttle_ms: int) -> None:
        """Count a client that has to pause."""
        self._throttles.add(self._key.quota, self._key.shared_by, throttle_ms)


class Client(NamedTuple):
    """The quotas of one user and client id; None where there is none."""

    produce: Meter | None
    fetch: Meter | None
    time: Meter | None
    mutation: MutationMeter | None


class ClientQuotas:
    """For one event loop. What a client has used outlives changes of its quota."""

    def __init__(self, window: Window, mutation_window: Window) -> None:
        self.window = window
        self.throttles = Throttles()
        self.exempt_ns = 0
        """Time for requests that no quota limits, of clients whose time is limited."""
        self._limits = Limits.of_rules()
        self._groups: Mapping[str, float] = {}
        self._measures: Measures[_Key, Rate] = Measures(lambda: Rate(window))
        self._buckets: Measures[_Key, TokenBucket] = Measures(lambda: TokenBucket(mutation_window))
        self._clients: dict[tuple[str, str | None], Client] = {}

    @property
    def is_active(self) -> bool:
        """Whether there is any quota."""
        return bool(self._limits or self._groups)

    @property
    def times_requests(self) -> bool:
        """Whether the time of any client's requests is limited."""
        return self._limits.has(QuotaKey.REQUEST_PERCENTAGE)

    @property
    def limits_groups(self) -> bool:
        """Whether any group has a quota."""
        return bool(self._groups)

    def __len__(self) -> int:
        """Return the number of live measures."""
        return len(self._measures) + len(self._buckets)

    def follow(self, limits: Limits, groups: Mapping[str, float]) -> bool:
        """Apply these quotas from now on; return whether any is new."""
        if limits == self._limits and groups == self._groups:
            return False
        self._limits, self._groups = limits, groups
        self._clients.clear()
        return True

    def client(self, user: str, client_id: str | None) -> Client:
        """Return the quotas of a client."""
        found = self._clients.get((user, client_id))
        if found is None:
            found = self._find(user, client_id or "")
            if len(self._clients) >= _MAX_CLIENTS:
                self._clients.clear()
            if client_id is None or len(client_id) <= MAX_NAME_CHARS:
                self._clients[user, client_id] = found
        return found

    def _find(self, user: str, client_id: str) -> Client:
        mutation = self._limits.of(QuotaKey.CONTROLLER_MUTATION_RATE, user, client_id)
        return Client(
            self._meter(QuotaKey.PRODUCER_BYTE_RATE, user, client_id),
            self._meter(QuotaKey.CONSUMER_BYTE_RATE, user, client_id),
            self._meter(QuotaKey.REQUEST_PERCENTAGE, user, client_id),
            None
            if mutation is None
            else MutationMeter(
                mutation.quota,
                _Key(QuotaKey.CONTROLLER_MUTATION_RATE, _short(mutation.shared_by)),
                self._buckets,
                self.throttles,
            ),
        )

    def _meter(self, key: QuotaKey, user: str, client_id: str) -> Meter | None:
        limit = self._limits.of(key, user, client_id)
        if limit is None:
            return None
        return Meter(limit.quota, _Key(key, _short(limit.shared_by)), self._measures, self.throttles)

    def group(self, group_id: str) -> Meter | None:
        """Return the quota of a group; None if it has none."""
        quota = self._groups.get(group_id)
        if quota is None:
            return None
        return Meter(quota, _Key(GROUP_BYTE_RATE, (short(group_id), ABSENT)), self._measures, self.throttles)

    def charge_time(self, meter: Meter, busy_ns: int, now_ms: int) -> int:
        """Charge the time of a request; returns for how long the client has to pause: one sample at most."""
        return meter.charge(busy_ns / _NS_PER_PERCENT, now_ms, self.window.sample_ms)

    def forget_unused(self, now_ms: int) -> None:
        """Drop the measures of clients that have not been used for an hour. Call it now and then."""
        self._measures.forget_unused(now_ms)
        self._buckets.forget_unused(now_ms)


def _short(who: Who) -> Who:
    user, client_id = who
    return (short(user) if isinstance(user, str) else user), (
        short(client_id) if isinstance(client_id, str) else client_id
    )
