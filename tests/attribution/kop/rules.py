"""The rules that label a fetch: KoP's, vivo's three schemes, and Muster's. The others write unconditionally, as they
did.

The article on the incident describes vivo's schemes (docs/attribution.md). They keep KoP's node and KoP's way to read
it, and change who writes and who deletes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace

from muster.actors.group.coordinator import Coordinator
from muster.actors.tables.rollup import Sample
from muster.gateway.attribution.account import Account
from muster.gateway.attribution.connection import ConnectionState
from muster.placement.mapping.registration import RegistrationUpdate
from tests.attribution.kop.kop_rule import KopRule, MemoryStore, Store, node_path
from tests.attribution.kop.mapping_model import MappingModel
from tests.attribution.kop.world import Connection, Member, Rule

BROKERS = ("A", "B", "C")
OFFSETS_PARTITION = 7
FETCHED_BYTES = 1_000


class Kop(Rule):
    """KoP's own: one process per broker over one ZooKeeper. With ``caches=False`` every fetch reads the node, as in the
    article's experiment, whose build had an expiring cache (set to 1 ms) in place of the connection's."""

    def __init__(
        self, name: str = "kop", *, caches: bool = True, store_of: Callable[[str], Store] | None = None
    ) -> None:
        self.name = name
        self.store = MemoryStore()
        self._store_of = store_of or (lambda broker: self.store)
        self._caches = caches
        self._brokers = {broker: KopRule(self._store_of(broker)) for broker in BROKERS}

    def found_coordinator(self, connection: Connection, client_id: str | None, groups: tuple[str, ...]) -> bool:
        broker = self._brokers[connection.broker]
        return broker.found_coordinator(connection.id, connection.address, client_id, groups)

    def closed(self, connection: Connection) -> None:
        self._brokers[connection.broker].closed(connection.id)

    def started(self, broker: str) -> None:
        self._brokers[broker] = KopRule(self._store_of(broker))

    def label(
        self, connection: Connection, client_id: str | None, topic: str, partition: int, offset: int, now_ms: int
    ) -> Callable[[], str]:
        reader: Hashable = connection.id if self._caches else object()
        label = self._brokers[connection.broker].label(reader, connection.address, client_id)
        return lambda: label


class SchemeOne(Kop):
    """Written at JoinGroup, deleted when the connection to the coordinator closes."""

    def __init__(self) -> None:
        super().__init__("scheme 1", caches=False)
        self._written: dict[int, str] = {}

    def found_coordinator(self, connection: Connection, client_id: str | None, groups: tuple[str, ...]) -> bool:
        return True

    def joined(self, member: Member) -> None:
        path = node_path(member.connection.address, member.client_id)
        self.store.put(path, member.group.encode())
        self._written[member.connection.id] = path

    def closed(self, connection: Connection) -> None:
        if (path := self._written.pop(connection.id, None)) is not None:
            self.store.delete(path)


class SchemeTwo(Kop):
    """Written at FindCoordinator, deleted when the coordinator removes the member (KoP's ``removeMember``)."""

    def __init__(self, name: str = "scheme 2", *, shutdown_flag: bool = True) -> None:
        super().__init__(name, caches=False)
        self._shutdown_flag = shutdown_flag

    def closed(self, connection: Connection) -> None:
        """Nothing."""

    def removed(self, broker: str, member: Member, *, stopping: bool) -> None:
        if not (stopping and self._shutdown_flag):
            self.store.delete(node_path(member.connection.address, member.client_id))


class SchemeThree(SchemeTwo):
    """Scheme 2, and a periodic check: each coordinator writes the missing nodes of its members."""

    def __init__(self) -> None:
        super().__init__("scheme 3")

    def checked(self, members: Iterable[Member]) -> None:
        for member in members:
            path = node_path(member.connection.address, member.client_id)
            if self.store.get(path) is None:
                self.store.put(path, member.group.encode())


class _Books:
    """The samples of one gateway, settled in place."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []

    def add(self, sample: Sample) -> None:
        self.samples.append(sample)

    def add_pending(self, sample: Sample) -> int:
        self.samples.append(sample)
        return len(self.samples) - 1

    def settle(
        self, handle: int, *, group: str | None, member_id: str | None, evidence: str, reason: str | None
    ) -> None:
        self.samples[handle] = replace(
            self.samples[handle], group=group, member_id=member_id, evidence=evidence, reason=reason
        )


class Ours(Rule):
    """The product's own parts: updates of the coordinator's core, one account per gateway, and the reconciler's plan
    over a model of ZooKeeper, on which no label depends."""

    name = "ours"

    def __init__(self) -> None:
        self.mapping = MappingModel()
        self.books = {broker: _Books() for broker in BROKERS}
        self.accounts = {broker: Account(self.books[broker], Sample) for broker in BROKERS}
        self._states: dict[int, ConnectionState] = {}

    def joined(self, member: Member) -> None:
        self.requested(member.connection, member.client_id, member.group)

    def requested(self, connection: Connection, client_id: str | None, group: str) -> None:
        account = self.accounts[connection.broker]
        account.group_request(self._state(connection), connection.host, client_id, group)

    def stated(self, updates: tuple[RegistrationUpdate, ...], now_ms: int) -> None:
        for account in self.accounts.values():
            account.updates(updates, now_ms)

    def coordinated(self, core: Coordinator, epoch: int, now_ms: int) -> None:
        for account in self.accounts.values():
            account.replace(OFFSETS_PARTITION, epoch, core.registrations(), now_ms)

    def closed(self, connection: Connection) -> None:
        if (state := self._states.pop(connection.id, None)) is not None:
            self.accounts[connection.broker].closed(state)

    def started(self, broker: str) -> None:
        self.books[broker] = _Books()
        self.accounts[broker] = Account(self.books[broker], Sample)

    def passed(self, now_ms: int) -> None:
        for account in self.accounts.values():
            account.settle(now_ms)

    def fetching(
        self, connection: Connection, client_id: str | None, offsets: Mapping[tuple[str, int], int], now_ms: int
    ) -> None:
        account = self.accounts[connection.broker]
        account.fetching(self._state(connection), connection.host, client_id, offsets, now_ms)

    def label(
        self, connection: Connection, client_id: str | None, topic: str, partition: int, offset: int, now_ms: int
    ) -> Callable[[], str]:
        books = self.books[connection.broker]
        number = len(books.samples)
        self.accounts[connection.broker].sent(
            self._state(connection),
            connection.host,
            client_id,
            [(topic, partition, offset, offset, offset + 9, 10, FETCHED_BYTES, 1, 0, 0)],
            now_ms,
        )
        self.check()

        def text() -> str:
            sample = books.samples[number]
            return sample.group if sample.group is not None else f"({sample.reason})"

        return text

    def evidence(self, broker: str) -> str:
        """Return the label of the last fetch there."""
        return self.books[broker].samples[-1].evidence

    def check(self) -> None:
        """Conservation: what was sent is under a group, under a reason, or pending."""
        for account in self.accounts.values():
            books = account.snapshot()
            booked = dict.fromkeys(books.sent, 0)
            for group_series, total in books.groups.items():
                booked[group_series[-2:]] += total.bytes
            for reason_series, total in books.reasons.items():
                booked[reason_series[-2:]] += total.bytes
            for part in (books.overflow, books.removed, books.pending):
                for place, amount in part.items():
                    booked[place] += amount.bytes
            assert booked == {place: total.bytes for place, total in books.sent.items()}

    def _state(self, connection: Connection) -> ConnectionState:
        return self._states.setdefault(connection.id, ConnectionState(connection.principal))
