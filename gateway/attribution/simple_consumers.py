"""Connections of simple consumers: those whose commits continue what the connection was sent.

A consumer that assigns partitions itself names its group only where it commits, usually on another connection than it
fetches on. Its address and client id are often a library's default, which the next program on that host has, too, and
an admin tool that sets a group's offsets sends the same request. So none of these is evidence of who fetches. What a
consumer commits is: an offset that it was sent. The connection to which that applies is the group's, if there is only
one. All commits of one connection are of one client:

* A connection that was not sent so much is another client's, from then on. So is one that began beyond the committed
  offset, unless it was opened after that client's first commit: a client that reconnects keeps what it has buffered.
* A connection that is closed when the commit is reported is not: a new client may commit where it will begin. A commit
  of what the group had committed before is not reported.
* Where a connection that may have been the client's is closed, those beside it are not: a new one is its successor.

Nothing is certain until an offset is committed beyond the one at which the connection began: all that have read
everything are at the same offset.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.gateway.attribution.claims import Place
from muster.gateway.attribution.connection import Fetches
from muster.gateway.attribution.fetchers import Fetchers
from muster.gateway.attribution.identity import Identities
from muster.gateway.attribution.slot import ClientKey
from muster.placement.mapping.registration import SimpleCommit

_MAX_COMMITTERS = 10_000


@dataclass(slots=True)
class _Committer:
    """A connection that commits a partition's offsets for a group, and the connections that may fetch for it."""

    since_ms: int
    """When its first commit was reported."""
    candidates: set[Fetches] = field(default_factory=set)
    others: set[Fetches] = field(default_factory=set)
    """Fetches of other clients."""

    def committed(self, offset: int, place: Place, present: Iterable[Fetches]) -> Fetches | None:
        """Return the only connection that may be that client's, if it has been sent records up to that offset."""
        if any(not each.connection.is_open for each in self.candidates):
            self.others |= self.candidates
        self.others.update(each for each in present if self._is_other(each, place, offset))
        self.others = {each for each in self.others if each.connection.is_open}
        self.candidates = {each for each in present if each not in self.others}
        if len(self.candidates) != 1:
            return None
        [fetches] = self.candidates
        return fetches if fetches.first_offset(place) < offset else None

    def _is_other(self, fetches: Fetches, place: Place, offset: int) -> bool:
        if offset > fetches.reached(place):
            return True
        return offset < fetches.first_offset(place) and fetches.first_ms(place) < self.since_ms


class SimpleConsumers:
    """Finds the connections, and has them identified."""

    def __init__(self, fetchers: Fetchers, identities: Identities) -> None:
        self._fetchers = fetchers
        self._identities = identities
        self._committers: dict[tuple[str, ClientKey, str, Place], _Committer] = {}
        """By group, client and connection; the one that committed last is last."""

    def committed(self, commit: SimpleCommit) -> None:
        """Apply a commit of a client without membership."""
        key = (commit.host, commit.client_id)
        for topic, partition, offset in commit.positions:
            place = (topic, partition)
            source = (commit.group, key, commit.connection, place)
            committer = self._committers.pop(source, None) or _Committer(self._fetchers.now_ms)
            self._committers[source] = committer
            present = [
                each
                for each in self._fetchers.of_client(key, commit.principal, place)
                if not each.is_shared and self._identities.known(each) in (None, commit.group)
            ]
            fetches = committer.committed(offset, place, present)
            if fetches is not None and commit.group not in fetches.simple_of:
                self._identities.commits(fetches, commit.group)
        while len(self._committers) > _MAX_COMMITTERS:
            del self._committers[next(iter(self._committers))]
