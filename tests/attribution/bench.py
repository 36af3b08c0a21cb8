"""A coordinator that sends registrations, and a gateway's account with its checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from muster.actors.tables.rollup import Sample
from muster.gateway.attribution.account import Account
from muster.gateway.attribution.connection import ConnectionState
from muster.placement.client import ANONYMOUS
from muster.placement.mapping.registration import Kind, Position, Registration, SimpleCommit, Withdrawal

HOST = "10.0.0.1"
CLIENT = "rdkafka"
NOW_MS = 1_700_000_000_000


class Coordinator:
    """Sends registrations as the coordinator of one offsets partition would."""

    def __init__(self, offsets_partition: int = 7, epoch: int = 1) -> None:
        self.offsets_partition = offsets_partition
        self.epoch = epoch
        self.sequence = 0
        self._committed: dict[tuple[str, str], set[int]] = {}

    def register(
        self,
        group: str,
        member_id: str,
        *partitions: int,
        topic: str = "t",
        known: bool = True,
        kind: Kind = Kind.MEMBER,
        host: str = HOST,
        client_id: str | None = CLIENT,
        principal: str | None = ANONYMOUS,
    ) -> Registration:
        self.sequence += 1
        return Registration(
            group=group,
            member_id=member_id,
            kind=kind,
            client_id=client_id,
            host=host,
            generation=1,
            partitions=frozenset((topic, partition) for partition in partitions) if known else None,
            offsets_partition=self.offsets_partition,
            epoch=self.epoch,
            sequence=self.sequence,
            principal=principal,
        )

    def position(
        self,
        group: str,
        member_id: str,
        offsets: dict[int, int],
        *,
        topic: str = "t",
        host: str = HOST,
        client_id: str | None = CLIENT,
        principal: str | None = ANONYMOUS,
        is_hint: bool = False,
    ) -> Position:
        """Return a client's position: the offsets, by partition, that it got in a response to OffsetFetch."""
        self.sequence += 1
        return Position(
            group=group,
            member_id=member_id,
            principal=principal,
            host=host,
            client_id=client_id,
            topics=((topic, tuple(offsets), tuple(offsets.values())),),
            offsets_partition=self.offsets_partition,
            epoch=self.epoch,
            sequence=self.sequence,
            is_hint=is_hint,
        )

    def commit(
        self,
        group: str,
        offsets: dict[int, int],
        *,
        connection: str = "1-1",
        client_id: str | None = CLIENT,
        principal: str = ANONYMOUS,
    ) -> list[Registration | SimpleCommit]:
        """Commit these offsets, by partition, as a client without membership; return the updates."""
        member_id = f"{principal}@{HOST}/{client_id}"
        self._committed.setdefault((group, member_id), set()).update(offsets)
        owned = self._committed[group, member_id]
        simple = Kind.SIMPLE
        registration = self.register(group, member_id, *owned, kind=simple, client_id=client_id, principal=principal)
        self.sequence += 1
        commit = SimpleCommit(
            group=group,
            member_id=member_id,
            principal=principal,
            host=HOST,
            client_id=client_id,
            connection=connection,
            positions=tuple(("t", partition, offset) for partition, offset in offsets.items()),
            offsets_partition=self.offsets_partition,
            epoch=self.epoch,
            sequence=self.sequence,
        )
        return [registration, commit]

    def withdraw(self, group: str, member_id: str, *, left: bool = False) -> Withdrawal:
        self.sequence += 1
        return Withdrawal(
            group=group,
            member_id=member_id,
            offsets_partition=self.offsets_partition,
            epoch=self.epoch,
            sequence=self.sequence,
            left=left,
        )


class Sink:
    """Records samples; settling one twice, or one that is not pending, is a KeyError."""

    def __init__(self) -> None:
        self.final: list[Sample] = []
        self.waiting: dict[int, Sample] = {}
        self._handles = 0

    def add(self, sample: Sample) -> None:
        self.final.append(sample)

    def add_pending(self, sample: Sample) -> int:
        self._handles += 1
        self.waiting[self._handles] = sample
        return self._handles

    def settle(
        self, handle: int, *, group: str | None, member_id: str | None, evidence: str, reason: str | None
    ) -> None:
        sample = self.waiting.pop(handle)
        self.final.append(replace(sample, group=group, member_id=member_id, evidence=evidence, reason=reason))


@dataclass
class Bench:
    account: Account[Sample]
    sink: Sink

    def send(
        self,
        partition: int = 0,
        *,
        at_ms: int = NOW_MS,
        connection: ConnectionState | None = None,
        host: str = HOST,
        client_id: str | None = CLIENT,
        topic: str = "t",
        size_bytes: int = 100,
        offset: int = 0,
    ) -> ConnectionState:
        """Ten records from that offset on."""
        connection = connection or ConnectionState()
        part = (topic, partition, offset, offset, offset + 9, 10, size_bytes, 1, 0, 0)
        self.account.sent(connection, host, client_id, [part], at_ms)
        self.check()
        return connection

    def fetching(
        self,
        connection: ConnectionState,
        offsets: Mapping[int, int],
        *,
        at_ms: int = NOW_MS,
        host: str = HOST,
        client_id: str | None = CLIENT,
        topic: str = "t",
    ) -> None:
        """Begin a Fetch with these partitions and offsets."""
        places = {(topic, partition): offset for partition, offset in offsets.items()}
        self.account.fetching(connection, host, client_id, places, at_ms)

    def settle(self, at_ms: int) -> list[tuple[str | None, str, str | None]]:
        """(group, evidence, reason) of all samples that are final by then."""
        self.account.settle(at_ms)
        self.check()
        return [(sample.group, sample.evidence, sample.reason) for sample in self.sink.final]

    def check(self) -> None:
        """Conservation, of the account and of the samples."""
        sent = {place: (amount.messages, amount.bytes) for place, amount in self.account.totals().items()}
        booked = dict.fromkeys(sent, (0, 0))
        parts = [((series[3], series[4]), amount) for series, amount in self.account.settled().items()]
        for place, amount in [*parts, *self.account.pending().items()]:
            messages, size_bytes = booked[place]
            booked[place] = (messages + amount.messages, size_bytes + amount.bytes)
        assert booked == sent
        samples = dict.fromkeys(sent, (0, 0))
        for sample in [*self.sink.final, *self.sink.waiting.values()]:
            messages, size_bytes = samples[sample.topic, sample.partition]
            samples[sample.topic, sample.partition] = (messages + sample.messages, size_bytes + sample.bytes)
        assert samples == sent

    def labels(self) -> list[tuple[str | None, str | None, str, str | None]]:
        """(group, member, evidence, reason) of the final samples, in the order in which they became final."""
        return [(s.group, s.member_id, s.evidence, s.reason) for s in self.sink.final]
