"""KoP's rule beside ours: what it would have lost or given to another group (``metrics.kop.shadow.enable``).

The rule (:mod:`muster.gateway.attribution.kop`) hears of what happens to this gateway as it would at a KoP broker:
FindCoordinator, the first Fetch of a connection that returns something, the end of a connection. Its nodes are under
``/muster_shadow`` in ZooKeeper, shared by all gateways, and written and read by a thread: KoP would have its clients
wait for that, here nobody does. Bytes that are sent before their connection's node is read wait for it; and a Fetch
on one gateway within milliseconds of the FindCoordinator on another may find less than KoP would have.

The comparison is made where samples become final, so it is of our last word on the bytes, not of the first.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from enum import StrEnum

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from muster.actors.config import MusterConfig
from muster.actors.tables.spool import Sample
from muster.gateway.attribution.account import Run, SampleSink
from muster.gateway.attribution.kop import KopRule, java_address
from muster.gateway.attribution.series import GroupSeries, group_label
from muster.gateway.kop.store import KopThread

_CLOSE_S = 5.0


class Outcome(StrEnum):
    """What KoP's rule makes of bytes."""

    AGREED = "agreed"
    """The same group as ours."""
    LOST = "lost"
    """``group=""``, and ours names one."""
    MISLABELLED = "mislabelled"
    """Another group than ours."""
    ONLY_KOP = "only_kop"
    """A group, where ours names none."""
    NEITHER = "neither"
    """No group, as ours."""


def outcome_of(label: str, group: str | None) -> Outcome:
    """``label`` is KoP's ("": none), ``group`` ours."""
    if group is None:
        return Outcome.ONLY_KOP if label else Outcome.NEITHER
    if not label:
        return Outcome.LOST
    return Outcome.AGREED if label == group else Outcome.MISLABELLED


class _Amount:
    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.bytes = 0
        self.messages = 0


class _Connection:
    """What one connection was sent, as far as KoP's label for it is not read yet."""

    __slots__ = ("asked", "label", "waiting")

    def __init__(self) -> None:
        self.label: str | None = None
        self.asked = False
        self.waiting: dict[tuple[str | None, str], _Amount] = defaultdict(_Amount)
        """By our group and topic."""


class KopShadow:
    """A sink of samples that hands on everything, and compares. All methods are for the gateway's event loop."""

    def __init__(self, sink: SampleSink[Sample], zk_hosts: str, *, max_series: int) -> None:
        self._sink = sink
        self._max_series = max_series
        self._thread = KopThread(zk_hosts)
        self._connections: dict[str, _Connection] = {}
        self._sending_to = _Connection()
        self._pending: dict[int, tuple[_Connection, Sample]] = {}
        self._amounts: dict[tuple[str, str, Outcome], _Amount] = {}
        self._waiting_bytes = 0

    def found_coordinator(
        self, connection_id: str, host: str, port: int, client_id: str | None, groups: Iterable[str]
    ) -> None:
        """A FindCoordinator for groups came in on that connection."""
        self._connections.setdefault(connection_id, _Connection())
        address, names = java_address(host, port), tuple(groups)

        def work(rule: KopRule) -> None:
            rule.found_coordinator(connection_id, address, client_id, names)

        self._thread.do(work)

    def sending(self, connection_id: str, host: str, port: int, client_id: str | None) -> None:
        """The samples that follow are of a Fetch answer that goes out on that connection and returns something."""
        connection = self._sending_to = self._connections.setdefault(connection_id, _Connection())
        if connection.asked:
            return
        connection.asked = True
        address, loop = java_address(host, port), asyncio.get_running_loop()

        def work(rule: KopRule) -> None:
            label = rule.label(connection_id, address, client_id)
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._read, connection, label)

        self._thread.do(work)

    def closed(self, connection_id: str) -> None:
        """The connection is gone, whoever closed it."""
        if self._connections.pop(connection_id, None) is not None:
            self._thread.do(lambda rule: rule.closed(connection_id))

    def add(self, sample: Sample) -> _ComparedRun | None:
        run = self._sink.add(sample)
        self.compare(sample, sample.messages, sample.bytes)
        return None if run is None else _ComparedRun(self, run, sample)

    def compare(self, sample: Sample, messages: int, size_bytes: int) -> None:
        """Messages and bytes with that sample's label are in the answer that goes out."""
        self._waiting_bytes += size_bytes
        self._compare(self._sending_to, sample.group, sample.topic, messages, size_bytes)

    def add_pending(self, sample: Sample) -> int:
        handle = self._sink.add_pending(sample)
        self._waiting_bytes += sample.bytes
        self._pending[handle] = (self._sending_to, sample)
        return handle

    def settle(
        self, handle: int, *, group: str | None, member_id: str | None, evidence: str, reason: str | None
    ) -> None:
        self._sink.settle(handle, group=group, member_id=member_id, evidence=evidence, reason=reason)
        connection, sample = self._pending.pop(handle)
        self._compare(connection, group, sample.topic, sample.messages, sample.bytes)

    def families(self, gateway: str, counted: Iterable[GroupSeries]) -> Iterator[Metric]:
        """What a scrape says of it. Groups that the books have no series of any more go here too: into ``group=""``."""
        self._retire({group_label(group) for group, *_ in counted})
        amounts = {names: (amount.bytes, amount.messages) for names, amount in self._amounts.items()}
        yield from shadow_families(gateway, amounts, self._waiting_bytes, self._thread.backlog, self._thread.failures)

    async def stop(self) -> None:
        """All connections count as closed; returns when KoP's rule has heard of everything, or after 5 s."""
        for connection_id in list(self._connections):
            self.closed(connection_id)
        await asyncio.to_thread(self._thread.close, _CLOSE_S)

    def _read(self, connection: _Connection, label: str) -> None:
        connection.label = label
        for (group, topic), amount in connection.waiting.items():
            self._count(label, group, topic, amount.messages, amount.bytes)
        connection.waiting.clear()

    def _compare(self, connection: _Connection, group: str | None, topic: str, messages: int, size_bytes: int) -> None:
        if connection.label is not None:
            self._count(connection.label, group, topic, messages, size_bytes)
            return
        waiting = connection.waiting[group, topic]
        waiting.messages += messages
        waiting.bytes += size_bytes

    def _count(self, label: str, group: str | None, topic: str, messages: int, size_bytes: int) -> None:
        name = (group_label(group or ""), topic, outcome_of(label, group))
        if name not in self._amounts and len(self._amounts) >= self._max_series:
            name = ("", *name[1:])
        self._add(name, messages, size_bytes)
        self._waiting_bytes -= size_bytes

    def _add(self, name: tuple[str, str, Outcome], messages: int, size_bytes: int) -> None:
        amount = self._amounts.setdefault(name, _Amount())
        amount.messages += messages
        amount.bytes += size_bytes

    def _retire(self, counted: Set[str]) -> None:
        for name in [name for name in self._amounts if name[0] and name[0] not in counted]:
            gone = self._amounts.pop(name)
            self._add(("", *name[1:]), gone.messages, gone.bytes)


class _ComparedRun:
    """A run of the sink's, of which every extension is compared too."""

    __slots__ = ("_first", "_run", "_shadow")

    def __init__(self, shadow: KopShadow, run: Run, first: Sample) -> None:
        self._shadow = shadow
        self._run = run
        self._first = first

    def extend(self, ts_ms: int, messages: int, size_bytes: int, first_offset: int, last_offset: int) -> bool:
        if not self._run.extend(ts_ms, messages, size_bytes, first_offset, last_offset):
            return False
        self._shadow.compare(self._first, messages, size_bytes)
        return True


def shadow_of(config: MusterConfig, sink: SampleSink[Sample], zk_hosts: str) -> KopShadow | None:
    """The shadow, if it is wanted; the books' samples are to go through it."""
    if not config.metrics_kop_shadow_enable:
        return None
    return KopShadow(sink, zk_hosts, max_series=config.metrics_max_group_series)


def shadow_families(
    gateway: str,
    amounts: dict[tuple[str, str, Outcome], tuple[int, int]],
    waiting_bytes: int = 0,
    backlog: int = 0,
    failures: int = 0,
) -> Iterator[Metric]:
    """The families of the shadow; ``amounts`` are bytes and messages by our group, topic and outcome."""
    for index, (unit, what) in enumerate((("bytes", "Bytes of record batches"), ("messages", "Records"))):
        family = CounterMetricFamily(
            f"muster_kop_shadow_fetch_{unit}",
            f"{what} by what KoP's rule would have made of them: agreed, lost, mislabelled (another group), only_kop "
            "(a group where ours has none), neither. group is ours; empty without one, beyond "
            "metrics.max.group.series, or when the group is gone. Only with metrics.kop.shadow.enable.",
            labels=("gateway", "group", "topic", "outcome"),
        )
        for (group, topic, outcome), both in amounts.items():
            family.add_metric((gateway, group, topic, outcome.value), both[index])
        yield family
    for name, what, value in (
        (
            "waiting_fetch_bytes",
            "Bytes sent whose group is not settled, or KoP's node for them not read yet.",
            waiting_bytes,
        ),
        (
            "backlog",
            "FindCoordinator requests, first reads and ends of connections still to be told to KoP's rule.",
            backlog,
        ),
    ):
        gauge = GaugeMetricFamily(f"muster_kop_shadow_{name}", what, labels=("gateway",))
        gauge.add_metric((gateway,), value)
        yield gauge
    failed = CounterMetricFamily(
        "muster_kop_shadow_store_failures",
        "Calls to ZooKeeper for KoP's rule that failed, names that make no valid path included.",
        labels=("gateway",),
    )
    failed.add_metric((gateway,), failures)
    yield failed
