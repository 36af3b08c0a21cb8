"""Prometheus metrics of one gateway.

Recording is plain dictionary arithmetic on the gateway's event loop. A scrape reads everything in one go on the same
loop, so its numbers are of one moment: those of fetches add up exactly (:mod:`muster.gateway.metrics.fetch`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from muster.gateway.attribution.account import Snapshot
from muster.gateway.metrics.fetch import fetch_families
from muster.gateway.metrics.kop import kop_families
from muster.placement.zookeeper.outages import connectivity

LATENCY_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""Up to a Heartbeat's fraction of a millisecond, and up to a JoinGroup that waits for a whole rebalance."""

_BUCKET_NAMES = (*(repr(float(bound)) for bound in LATENCY_BUCKETS_S), "+Inf")


class Books(Protocol):
    """What was sent and for whom (``muster.gateway.attribution.account.Account``)."""

    def snapshot(self) -> Snapshot: ...
    def registrations(self) -> int: ...
    def ambiguous_clients(self) -> int: ...


class NoBooks:
    """Nothing was sent: for the names of the metrics alone."""

    def snapshot(self) -> Snapshot:
        return Snapshot(sent={}, groups={}, reasons={}, overflow={}, removed={}, pending={}, folded=0)

    def registrations(self) -> int:
        return 0

    def ambiguous_clients(self) -> int:
        return 0


class _Histogram:
    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * len(_BUCKET_NAMES)
        self.sum_s = 0.0


class GatewayMetrics(Collector):
    """Everything that one gateway counts; ``registry`` holds nothing else. All series carry ``gateway``.

    Label values that clients make up (topics, groups) are safe whatever they contain. ``api`` and ``actor`` must
    come from a fixed set: name an unknown API key ``unknown``. ``kop_cluster`` is the label ``cluster`` of KoP's
    metrics; None leaves them out.
    """

    def __init__(self, gateway: int, books: Books, *, kop_cluster: str | None = None) -> None:
        self.registry = CollectorRegistry()
        self._gateway = str(gateway)
        self._books = books
        self._kop_cluster = kop_cluster
        self._requests: defaultdict[tuple[str, int, str], int] = defaultdict(int)
        self._latencies: defaultdict[str, _Histogram] = defaultdict(_Histogram)
        self._produced: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        self._forward_errors: defaultdict[str, int] = defaultdict(int)
        self._group_scrape_errors: defaultdict[str, int] = defaultdict(int)
        self._faults: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        self._closed_for: defaultdict[str, int] = defaultdict(int)
        self._connections = 0
        self._connections_opened = 0
        self._received_bytes = 0
        self._sent_bytes = 0
        self._view_order = (0, 0)
        self.registry.register(self)

    def request(self, api: str, version: int, error: str, duration_s: float) -> None:
        """A request was answered. ``api`` is Kafka's name (``JoinGroup``), ``error`` its error name (``NONE``)."""
        self._requests[api, version, error] += 1
        histogram = self._latencies[api]
        histogram.counts[bisect_left(LATENCY_BUCKETS_S, duration_s)] += 1
        histogram.sum_s += duration_s

    def produced(self, topic: str, messages: int, size_bytes: int) -> None:
        """Record batches were appended to that topic."""
        amount = self._produced[topic]
        amount[0] += messages
        amount[1] += size_bytes

    def connection_opened(self) -> None:
        """A client connected."""
        self._connections += 1
        self._connections_opened += 1

    def connection_closed(self) -> None:
        """A client's connection is gone."""
        self._connections -= 1

    def connection_closed_for(self, reason: str) -> None:
        """A client's connection was closed for what it did, or could not be served."""
        self._closed_for[reason] += 1

    def received(self, size_bytes: int) -> None:
        """Bytes came from clients, frame sizes included."""
        self._received_bytes += size_bytes

    def sent(self, size_bytes: int) -> None:
        """Bytes were handed to clients' sockets, frame sizes included."""
        self._sent_bytes += size_bytes

    def forward_error(self, actor: str) -> None:
        """A request could not be forwarded to that actor, or its answer did not come."""
        self._forward_errors[actor] += 1

    def group_scrape_error(self, actor: str) -> None:
        """That offsets actor said nothing of its groups in a scrape."""
        self._group_scrape_errors[actor] += 1

    def fault_injected(self, action: str, *, api: str = "", actor: str = "") -> None:
        """A fault acted on a request of that API, or was sent to that actor through this gateway."""
        self._faults[action, api, actor] += 1

    def view(self, order: tuple[int, int]) -> None:
        """This ClusterView (its ``order``) is now in use."""
        self._view_order = order

    def collect(self) -> Iterator[Metric]:
        """All families; call it on the event loop and do not await between them."""
        books = self._books.snapshot()
        yield from fetch_families(self._gateway, books)
        if self._kop_cluster is not None:
            yield from kop_families(self._kop_cluster, books)
        yield from self._traffic()
        yield from self._cluster()

    def _traffic(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "muster_requests", "Requests answered.", labels=("gateway", "api", "version", "error")
        )
        for (api, version, error), count in self._requests.items():
            requests.add_metric((self._gateway, label_value(api), str(version), label_value(error)), count)
        yield requests
        latency = HistogramMetricFamily(
            "muster_request_duration_seconds",
            "Time from a request's last byte in to its answer's hand-over to the socket, waiting included.",
            labels=("gateway", "api"),
        )
        for api, histogram in self._latencies.items():
            latency.add_metric((self._gateway, label_value(api)), _cumulated(histogram.counts), histogram.sum_s)
        yield latency
        yield self._produce("produce_bytes", "Bytes of record batches appended.", 1)
        yield self._produce("produce_messages", "Records appended.", 0)
        yield self._gauge("connections", "Client connections that are open.", (), [((), self._connections)])
        yield self._plain_counter("connections_opened", "Client connections accepted.", self._connections_opened)
        closed = CounterMetricFamily(
            "muster_connections_closed",
            "Client connections that were closed for a reason; the log tells of the first, and how many followed.",
            labels=("gateway", "reason"),
        )
        for reason, count in self._closed_for.items():
            closed.add_metric((self._gateway, reason), count)
        yield closed
        yield self._plain_counter("received_bytes", "Bytes received from clients.", self._received_bytes)
        yield self._plain_counter("sent_bytes", "Bytes handed to clients' sockets.", self._sent_bytes)

    def _cluster(self) -> Iterator[Metric]:
        errors = CounterMetricFamily(
            "muster_forward_errors",
            "Requests that could not be forwarded to an actor, or whose answer did not come.",
            labels=("gateway", "actor"),
        )
        for actor, count in self._forward_errors.items():
            errors.add_metric((self._gateway, label_value(actor)), count)
        yield errors
        unscraped = CounterMetricFamily(
            "muster_group_metrics_scrape_errors",
            "Times that an offsets actor said nothing of its groups in time; that scrape is without them.",
            labels=("gateway", "actor"),
        )
        for actor, count in self._group_scrape_errors.items():
            unscraped.add_metric((self._gateway, label_value(actor)), count)
        yield unscraped
        faults = CounterMetricFamily(
            "muster_faults_injected",
            "Faults that acted on a request of that API, or were done to that actor (fault.injection.enable).",
            labels=("gateway", "action", "api", "actor"),
        )
        for labels, count in self._faults.items():
            faults.add_metric((self._gateway, *map(label_value, labels)), count)
        yield faults
        epoch, version = self._view_order
        yield self._gauge("controller_epoch", "Epoch of the controller whose view is in use.", (), [((), epoch)])
        yield self._gauge("view_version", "Version of the cluster view in use.", (), [((), version)])
        registrations = self._books.registrations()
        yield self._gauge(
            "registrations", "Clients that the group coordinators named to this gateway.", (), [((), registrations)]
        )
        yield self._gauge(
            "ambiguous_clients",
            "Pairs of host and client id that clients of more than one group (and of one principal) have in common, in "
            "the whole cluster; a client.id of its own makes a client certain.",
            (),
            [((), self._books.ambiguous_clients())],
        )
        zookeeper = connectivity()
        yield self._gauge(
            "zookeeper_connected",
            "1 while this gateway is connected to ZooKeeper.",
            (),
            [((), int(zookeeper.connected))],
        )
        yield self._plain_counter(
            "zookeeper_outages", "Times that this gateway lost its connection to ZooKeeper.", zookeeper.outages
        )

    def _produce(self, name: str, help_text: str, index: int) -> Metric:
        family = CounterMetricFamily(f"muster_{name}", help_text, labels=("gateway", "topic"))
        for topic, amount in self._produced.items():
            family.add_metric((self._gateway, label_value(topic)), amount[index])
        return family

    def _plain_counter(self, name: str, help_text: str, value: int) -> Metric:
        family = CounterMetricFamily(f"muster_{name}", help_text, labels=("gateway",))
        family.add_metric((self._gateway,), value)
        return family

    def _gauge(
        self, name: str, help_text: str, labels: tuple[str, ...], values: Iterable[tuple[tuple[str, ...], int]]
    ) -> Metric:
        family = GaugeMetricFamily(f"muster_{name}", help_text, labels=("gateway", *labels))
        for label_values, value in values:
            family.add_metric((self._gateway, *map(label_value, label_values)), value)
        return family


def _cumulated(counts: list[int]) -> list[tuple[str, float]]:
    running = 0
    buckets: list[tuple[str, float]] = []
    for name, count in zip(_BUCKET_NAMES, counts, strict=True):
        running += count
        buckets.append((name, running))
    return buckets


def label_value(value: str) -> str:
    """The value itself unless it cannot be encoded (lone surrogates): one such name must not cost the whole scrape."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode(errors="backslashreplace").decode()
    return value
