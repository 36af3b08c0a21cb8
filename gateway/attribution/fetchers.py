"""All connections that fetch, by (host, client id) and partition: which ones fetch side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from muster.gateway.attribution.claims import Place
from muster.gateway.attribution.connection import ConnectionState, Fetches
from muster.gateway.attribution.slot import ClientKey

MAX_CLIENT_IDS = 64
"""The most client ids of one connection (a proxy) that are distinguished at a time."""


class Fetchers:
    """``now_ms`` is the time of the latest event that was recorded."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._at: dict[tuple[ClientKey, Place], dict[Fetches, None]] = {}
        self._gone: dict[tuple[ClientKey, str, Place], int] = {}
        """When the closed connections that fetched there were last seen."""
        self._count = 0

    def of(self, connection: ConnectionState, host: str, client_id: str | None) -> Fetches:
        """Return the fetches of that connection for that client id."""
        fetches = connection.fetches.get(client_id)
        if fetches is None:
            if len(connection.fetches) >= MAX_CLIENT_IDS:
                oldest = connection.fetches.pop(next(iter(connection.fetches)))
                self._drop(oldest, oldest.known())
            self._count += 1
            fetches = connection.fetches[client_id] = Fetches(connection, (host, client_id), self._count)
        return fetches

    def saw(
        self, connection: ConnectionState, host: str, client_id: str | None, offsets: Mapping[Place, int], now_ms: int
    ) -> bool:
        """Record a Fetch of exactly these partitions and fetch offsets. Returns whether it begins any of them."""
        if now_ms > self.now_ms:
            self.now_ms = now_ms
        fetches = connection.fetches.get(client_id)
        if fetches is None:
            fetches = self.of(connection, host, client_id)
        if fresh := fetches.saw(offsets, now_ms):
            self._index(fetches, fresh)
        return bool(fresh)

    def sent(
        self, connection: ConnectionState, host: str, client_id: str | None, place: Place, offset: int, now_ms: int
    ) -> None:
        """Record that records of the partition were fetched; nothing new if the Fetch was seen."""
        self.tick(now_ms)
        fetches = self.of(connection, host, client_id)
        if fresh := fetches.saw_one(place, offset, now_ms):
            self._index(fetches, fresh)

    def closed(self, connection: ConnectionState) -> None:
        """Record that the connection is closed; what it was sent may still wait for evidence."""
        connection.is_open = False
        for fetches in connection.fetches.values():
            fetches.closed_ms = self.now_ms
            for place in fetches.known():
                where = (fetches.key, fetches.principal, place)
                self._gone.pop(where, None)
                self._gone[where] = self.now_ms
            self._drop(fetches, fetches.known())

    def beside(self, fetches: Fetches, place: Place) -> Iterator[Fetches]:
        """Yield the other open connections of that principal, host and client id that have fetched the partition."""
        for each in self._at.get((fetches.key, place), ()):
            if each is not fetches and each.principal == fetches.principal:
                yield each

    def of_client(self, key: ClientKey, principal: str, place: Place) -> list[Fetches]:
        """Return the open connections of that key and principal that have fetched the partition."""
        return [each for each in self._at.get((key, place), ()) if each.principal == principal]

    def at(self, fetches: Fetches, place: Place) -> list[Fetches]:
        """Return the open connections that fetched it recently, ``fetches`` included, in order of appearance."""
        here = [each for each in (fetches, *self.beside(fetches, place)) if each.is_at(place, self.now_ms)]
        return sorted((each for each in here if each.connection.is_open), key=lambda each: each.number)

    def was_fetched(self, key: ClientKey, principal: str, place: Place, since_ms: int) -> bool:
        """Whether any connection of that key and principal fetched the partition at that time or later."""
        if self._gone.get((key, principal, place), -1) >= since_ms:
            return True
        here = self._at.get((key, place), ())
        return any(each.principal == principal and each.last_ms(place) >= since_ms for each in here)

    def tick(self, now_ms: int) -> None:
        """Advance the time."""
        if now_ms > self.now_ms:
            self.now_ms = now_ms

    def prune(self, before_ms: int) -> None:
        """Forget connections that were closed before that time."""
        while self._gone:
            where, at_ms = next(iter(self._gone.items()))
            if at_ms >= before_ms:
                break
            del self._gone[where]

    def _index(self, fetches: Fetches, fresh: list[Place]) -> None:
        if fetches.connection.is_open:
            for place in fresh:
                self._at.setdefault((fetches.key, place), {})[fetches] = None
        self._drop(fetches, fetches.forget())

    def _drop(self, fetches: Fetches, places: Iterable[Place]) -> None:
        for place in places:
            here = self._at.get((fetches.key, place))
            if here is not None:
                here.pop(fetches, None)
                if not here:
                    del self._at[fetches.key, place]
