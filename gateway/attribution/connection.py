"""Evidence from one client connection: the groups that it works for, and its fetches by client id.

For each client id: which partitions it fetches, since when, and from which offset. A client fetches from one gateway
over one connection at a time (Java, librdkafka, franz-go, sarama, kafka-python, aiokafka and kafkajs alike), so
everything that a connection fetches for one client id belongs to one member.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from muster.gateway.attribution.claims import Place, Reader
from muster.gateway.attribution.slot import ClientKey, Observation
from muster.gateway.attribution.verdict import Evidence
from muster.placement.client import ANONYMOUS

WINDOW_MS = 10_000
"""How long a partition counts as fetched together with the others.

Longer than the time for which a client omits a partition because it still has records of it (Java names in a Fetch
only the partitions without buffered records), shorter than the grace time after a reassignment.
"""
GONE_MS = 5_000
"""After this time without a Fetch, a connection may have been replaced by one that appeared then."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The group that a connection fetches for with one client id."""

    group: str
    evidence: Evidence
    basis: tuple[Observation, ...]
    """Observations that distinguish the group: another one that may have fetched all of this, too, is a rival."""
    over: frozenset[str] = frozenset()
    """Rivals that other evidence than the basis ruled out."""
    is_guess: bool = False
    """Whether better evidence may replace it."""


@dataclass(slots=True)
class _Seen:
    first_ms: int
    last_ms: int
    first_offset: int


class Fetches:
    """The fetches of one (connection, client id). ``news`` grows when a partition is fetched that was not before."""

    __slots__ = (
        "_seen",
        "after",
        "before_last_ms",
        "closed_ms",
        "connection",
        "current",
        "doubts",
        "identified_ms",
        "identity",
        "is_shared",
        "key",
        "last_active_ms",
        "news",
        "not_of",
        "number",
        "outside_of",
        "simple_of",
        "stood",
        "streams",
        "tried",
        "waiting_since_ms",
    )

    def __init__(self, connection: ConnectionState, key: ClientKey, number: int) -> None:
        self.connection = connection
        self.key = key
        self.number = number
        """Grows in the order in which they were first seen."""
        self.news = 0
        self.identity: Identity | None = None
        self.identified_ms = 0
        """Since when it has been known as that group's."""
        self.after: list[Fetches] = []
        """Connections whose identity it took over, since it seems to be their successor."""
        self.doubts: list[tuple[Place, int]] = []
        """Partitions that were fetched although they are not the identity's, and when."""
        self.not_of: set[str] = set()
        """Groups that had another client beside it, which has disconnected."""
        self.outside_of: set[str] = set()
        """Groups beside whose members it fetched without being one (:mod:`muster.gateway.attribution.non_members`)."""
        self.simple_of: frozenset[str] = frozenset()
        """Groups for which it fetches without membership (:mod:`muster.gateway.attribution.simple_consumers`)."""
        self.is_shared = False
        """Whether several clients share it (a proxy): evidence for one partition then says nothing about another."""
        self.stood = 0
        """The version of the candidates for which the identity was last confirmed."""
        self.tried: object = None
        """When the last attempt to find an identity failed."""
        self.waiting_since_ms: int | None = None
        """Since when bytes have waited for an identity."""
        self._seen: dict[Place, _Seen] = {}
        self.current: Mapping[Place, int] = {}
        """The partitions and fetch offsets of the last Fetch that differed from the one before it."""
        self.last_active_ms = 0
        """When it last fetched."""
        self.before_last_ms = 0
        """When it fetched before that. A client has one Fetch in flight at a time on a connection, so it sent the last
        one after the previous one was answered: certainly after this time."""
        self.closed_ms: int | None = None
        """When its connection was closed: a Fetch may have been under way until then."""
        self.streams: dict[Place, Any] = {}
        """The account's verdicts on it, while they are current."""

    @property
    def principal(self) -> str:
        return self.connection.principal

    @property
    def reader(self) -> Reader:
        """Reader that this connection has shown itself to be so far."""
        connection = self.connection
        own = connection.group_of(self.key[1])
        simple_of = self.simple_of if own is None else self.simple_of | {own}
        return Reader(connection.principal, connection.opened_ms, self.before_last_ms, simple_of)

    def places(self) -> list[Place]:
        """Partitions that were fetched recently."""
        since_ms = self.last_active_ms - WINDOW_MS
        return [place for place in self._seen if self.last_ms(place) >= since_ms]

    def known(self) -> list[Place]:
        """Partitions that are remembered."""
        return list(self._seen)

    def knows(self, place: Place) -> bool:
        return place in self._seen

    def is_at(self, place: Place, now_ms: int) -> bool:
        """Whether the partition was fetched recently."""
        return place in self._seen and now_ms - self.last_ms(place) <= WINDOW_MS

    def observations(self, *, begun_by_ms: int | None = None) -> list[Observation]:
        """Return the recent fetches; with a time, only those that had begun by then."""
        return [
            Observation(place, self._seen[place].first_ms, self.last_ms(place))
            for place in self.places()
            if begun_by_ms is None or self._seen[place].first_ms <= begun_by_ms
        ]

    def first_ms(self, place: Place) -> int:
        return self._seen[place].first_ms

    def first_offset(self, place: Place) -> int:
        """Return the offset at which the connection began to fetch the partition."""
        return self._seen[place].first_offset

    def reached(self, place: Place) -> int:
        """Return the offset after the last one that it was sent of the partition; at first, where it began."""
        stream = self.streams.get(place)
        began = self._seen[place].first_offset
        return began if stream is None else max(began, stream.reached)

    def last_ms(self, place: Place) -> int:
        return self.last_active_ms if place in self.current else self._seen[place].last_ms

    def saw(self, offsets: Mapping[Place, int], now_ms: int) -> list[Place]:
        """Record a Fetch of exactly these partitions and offsets. Returns those that are new, or new again."""
        if offsets.keys() == self.current.keys():
            self.before_last_ms, self.last_active_ms = self.last_active_ms, now_ms
            return []
        for place in self.current:
            self._seen[place].last_ms = self.last_active_ms
        fresh = self._note(offsets, now_ms)
        self.current = offsets
        self.before_last_ms, self.last_active_ms = self.last_active_ms, now_ms
        return fresh

    def saw_one(self, place: Place, offset: int, now_ms: int) -> list[Place]:
        """Record that records of the partition were fetched from that offset, without any information on others."""
        self.last_active_ms = max(self.last_active_ms, now_ms)
        return [] if place in self.current else self._note({place: offset}, now_ms)

    def forget(self) -> list[Place]:
        """Drop what was not fetched for a long time, and return it."""
        gone = set(self._seen).difference(self.places(), self.current)
        for place in gone:
            del self._seen[place]
            self.streams.pop(place, None)
        return list(gone)

    def _note(self, offsets: Mapping[Place, int], now_ms: int) -> list[Place]:
        fresh = []
        for place, offset in offsets.items():
            seen = self._seen.get(place)
            if seen is None or now_ms - seen.last_ms > WINDOW_MS:
                self._seen[place] = _Seen(now_ms, now_ms, offset)
                self.streams.pop(place, None)  # others may have been added meanwhile
                fresh.append(place)
            else:
                seen.last_ms = now_ms
        if fresh:
            self.news += 1
        return fresh


def overlap(one: Fetches, other: Fetches, place: Place) -> bool:
    """Whether both fetched the partition after both had begun to: then they are two clients, not a reconnect."""
    return one.last_ms(place) > other.first_ms(place) and other.last_ms(place) > one.first_ms(place)


def may_overlap(one: Fetches, other: Fetches, place: Place) -> bool:
    """Whether they may be two clients: neither continued for long without the other, as after a reconnect."""
    return overlap(one, other, place) or abs(one.last_ms(place) - other.last_ms(place)) < GONE_MS


def were_open_together(these: Iterable[Fetches], place: Place) -> bool:
    """Whether each was open when the last one began to fetch the partition.

    This may also be so of a client's old connection and the one that replaces it.
    """
    these = list(these)
    began_ms = max(each.first_ms(place) for each in these)
    return all(each.closed_ms is None or each.closed_ms > began_ms for each in these)


def all_overlap(fetches: Iterable[Fetches], place: Place) -> bool:
    """Whether each continued to fetch the partition after the last one had begun to."""
    these = list(fetches)
    return min(each.last_ms(place) for each in these) > max(each.first_ms(place) for each in these)


class ConnectionState:
    """The state of one client connection; it outlives the connection only while bytes wait for evidence."""

    __slots__ = ("_client_ids", "_groups", "fetches", "is_open", "opened_ms", "principal")

    def __init__(self, principal: str = ANONYMOUS, *, opened_ms: int = 0) -> None:
        """``opened_ms`` is by the gateway's clock; 0 if it is not known."""
        self.opened_ms = opened_ms
        self.principal = principal
        """The connection's principal. Must not change after the first request of a consumer."""
        self._groups: set[tuple[str | None, str]] = set()
        self._client_ids: set[str | None] = set()
        self.fetches: dict[str | None, Fetches] = {}
        """Fetches by client id."""
        self.is_open = True

    def saw_group(self, client_id: str | None, group: str) -> bool:
        """Record a request of a client of ``group``. Returns whether that is new.

        Only JoinGroup, SyncGroup, Heartbeat and OffsetCommit count. FindCoordinator, OffsetFetch and admin requests are
        sent for groups that the connection does not consume for (F11).
        """
        self.saw_client(client_id)
        if (client_id, group) in self._groups or len(self._groups) > 1:
            return False
        self._groups.add((client_id, group))
        self._unlearn()
        return True

    def saw_client(self, client_id: str | None) -> None:
        """Record a request with that client id."""
        if client_id not in self._client_ids and len(self._client_ids) < 2:
            self._client_ids.add(client_id)
            self._unlearn()

    def group_of(self, client_id: str | None) -> str | None:
        """Return the group that this connection is known to work for.

        None if there was no group request, or if several groups or client ids share the connection (a proxy or
        bridge, F15): it is then no evidence for any of them.
        """
        if len(self._groups) != 1 or self._client_ids != {client_id}:
            return None
        [(_, group)] = self._groups
        return group

    def _unlearn(self) -> None:
        for fetches in self.fetches.values():
            fetches.streams.clear()
            if fetches.identity is not None and fetches.identity.evidence is Evidence.SAME_CONNECTION:
                fetches.identity = None
