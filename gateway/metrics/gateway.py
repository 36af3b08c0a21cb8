"""Prometheus metrics of one gateway.

Recording is plain dictionary arithmetic on the gateway's event loop. A scrape reads everything at once on the same
loop, so its numbers are of one moment: those of fetches add up exactly (:mod:`muster.gateway.metrics.fetch`).
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Protocol

from muster.gateway.attribution.account import Snapshot
from muster.gateway.metrics.clients import ClientsSnapshot, QuotasSnapshot, write_clients, write_quotas
from muster.gateway.metrics.exposition import Exposition, Section, labels
from muster.gateway.metrics.families import GATEWAY
from muster.gateway.metrics.fetch import write_fetch, write_kop
from muster.gateway.quotas.clients import ClientQuotas
from muster.gateway.quotas.connections import Connections
from muster.gateway.security.counts import LoginCounts
from muster.gateway.telemetry.instances import ClientInstances
from muster.gateway.telemetry.series import ClientSeries
from muster.placement.zookeeper.outages import connectivity

LATENCY_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""From a Heartbeat's fraction of a millisecond to a JoinGroup that waits for a whole rebalance."""

_BUCKET_NAMES = (*(repr(float(bound)) for bound in LATENCY_BUCKETS_S), "+Inf")


class Books(Protocol):
    """Sends by group (``muster.gateway.attribution.account.Account``)."""

    def snapshot(self) -> Snapshot: ...
    def registrations(self) -> int: ...
    def ambiguous_clients(self) -> int: ...


class Sessions(Protocol):
    """The fetch sessions (``muster.gateway.fetch_sessions.cache.FetchSessions``)."""

    partitions: int
    evictions: int

    def __len__(self) -> int: ...


class _Histogram:
    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * len(_BUCKET_NAMES)
        self.sum_s = 0.0


class GatewayMetrics:
    """Everything that one gateway counts.

    Label values may contain anything, but ``api`` and ``actor`` must come from a fixed set: name an unknown API key
    ``unknown``. ``kop_cluster`` is the label ``cluster`` of KoP's metrics; None leaves them out.
    """

    def __init__(self, gateway: int, books: Books, *, kop_cluster: str | None = None) -> None:
        self.gateway = gateway
        self._books = books
        self._kop_cluster = kop_cluster
        self._requests: defaultdict[tuple[str, int, str], int] = defaultdict(int)
        self._latencies: defaultdict[str, _Histogram] = defaultdict(_Histogram)
        self._produced: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        self._counts: defaultdict[tuple[str, str], int] = defaultdict(int)
        """Rare events, by family and labels."""
        self._connections = 0
        self._connections_opened = 0
        self.received_bytes = 0
        """Bytes from clients, frame sizes included."""
        self.sent_bytes = 0
        """Bytes that were written to clients' sockets, frame sizes included."""
        self._view_order = (0, 0)
        self.fetch_sessions: Sessions | None = None
        """Set by the gateway, and so are the next five."""
        self.logins = LoginCounts()
        self.reachable: Callable[[], Mapping[tuple[str, int], bool]] = dict
        """Whether each actor can be reached now, by kind and number."""
        self.storage: Path | None = None
        """``storage.path``."""
        self.accepted: Connections | None = None
        self.quotas: ClientQuotas | None = None
        """Set by the gateway, too."""
        self.client_series = ClientSeries(0)
        self.client_instances = ClientInstances()
        self.certificates: Callable[[], Iterable[tuple[str, float]]] = tuple
        """Days until the certificate of each listener expires."""
        self.controller_responds: Callable[[], bool] | None = None
        """Set by the process; None in a standby's."""
        self._pushes: defaultdict[str, int] = defaultdict(int)
        self.acls = 0
        """Their number."""
        self._authorizations = {False: 0, True: 0}

    def request(self, api: str, version: int, error: str, duration_s: float) -> None:
        """Count a served request. ``api`` is Kafka's name (``JoinGroup``), ``error`` its error name (``NONE``)."""
        self._requests[api, version, error] += 1
        histogram = self._latencies[api]
        histogram.counts[bisect_left(LATENCY_BUCKETS_S, duration_s)] += 1
        histogram.sum_s += duration_s

    def produced(self, topic: str, messages: int, size_bytes: int) -> None:
        """Count record batches that were appended to that topic."""
        amount = self._produced[topic]
        amount[0] += messages
        amount[1] += size_bytes

    def produced_by_topic(self) -> dict[str, tuple[int, int]]:
        """Return messages and bytes that were appended, by topic."""
        return {topic: (messages, size_bytes) for topic, (messages, size_bytes) in self._produced.items()}

    def connection_opened(self) -> None:
        """Count a client that connected."""
        self._connections += 1
        self._connections_opened += 1

    def connection_closed(self) -> None:
        """Count a client's connection as closed."""
        self._connections -= 1

    def connection_closed_for(self, reason: str) -> None:
        """Count a connection that was closed for what the client did, or because it could not be served."""
        self._counts["muster_connections_closed_total", labels(reason=reason)] += 1

    def forward_error(self, actor: str) -> None:
        """Count a request that could not be forwarded to that actor, or got no response."""
        self._counts["muster_forward_errors_total", labels(actor=actor)] += 1

    def group_scrape_error(self, actor: str) -> None:
        """Count a coordinator that did not report its groups, or transactions, in a scrape."""
        self._counts["muster_group_metrics_scrape_errors_total", labels(actor=actor)] += 1

    def fault_injected(self, action: str, *, api: str = "", actor: str = "") -> None:
        """Count a fault that acted on a request of that API, or was sent to that actor through this gateway."""
        self._counts["muster_faults_injected_total", labels(action=action, api=api, actor=actor)] += 1

    def authorized(self, allowed: bool, times: int = 1) -> None:
        """Count a decision of the authorizer, or as many alike."""
        self._authorizations[allowed] += times

    def client_pushed(self, error: str) -> None:
        """Count a PushTelemetry. ``error`` is Kafka's name of its error."""
        self._pushes[error] += 1

    def view(self, order: tuple[int, int]) -> None:
        """Record that this ClusterView (its ``order``) is now in use."""
        self._view_order = order

    def sections(self) -> tuple[Section, ...]:
        """All families as of now. Call it on the event loop; a thread may write the sections."""
        books = self._books.snapshot()
        zookeeper = connectivity()
        epoch, version = self._view_order
        values = {
            **_of_sessions(self.fetch_sessions),
            "muster_connections": self._connections,
            "muster_connections_opened_total": self._connections_opened,
            "muster_received_bytes_total": self.received_bytes,
            "muster_sent_bytes_total": self.sent_bytes,
            "muster_controller_epoch": epoch,
            "muster_view_version": version,
            "muster_registrations": self._books.registrations(),
            "muster_acls": self.acls,
            "muster_ambiguous_clients": self._books.ambiguous_clients(),
            "muster_zookeeper_connected": int(zookeeper.connected),
            "muster_zookeeper_outages_total": zookeeper.outages,
        }
        certificates = tuple(self.certificates())
        authorizations = {
            ("muster_authorizations_total", labels(result="allowed" if allowed else "denied")): count
            for allowed, count in self._authorizations.items()
        }
        requests, counts = dict(self._requests), self._counts | authorizations
        logins, again_s = dict(self.logins.totals), dict(self.logins.again_s)
        if self.controller_responds is not None:
            values["muster_controller_connected"] = int(self.controller_responds())
        reachable, storage = self.reachable(), self.storage
        produced = self.produced_by_topic()
        latencies = {api: (tuple(histogram.counts), histogram.sum_s) for api, histogram in self._latencies.items()}

        def write(out: Exposition) -> None:
            out.begin(GATEWAY)
            for name, value in values.items():
                out.add(name, "", value)
            for listener, days in certificates:
                out.add("muster_tls_certificate_days_left", labels(listener=listener), round(days, 3))
            for (kind, number), is_reachable in reachable.items():
                out.add("muster_actor_connected", labels(actor=f"{kind}-{number}"), int(is_reachable))
            for name, size_bytes in _storage(storage):
                out.add(name, "", size_bytes)
            for (name, series), count in counts.items():
                out.add(name, series, count)
            for (api, api_version, error), count in requests.items():
                out.add("muster_requests_total", labels(api=api, version=api_version, error=error), count)
            for (name, listener), count in logins.items():
                out.add(name, labels(listener=listener), count)
            for listener, duration_s in again_s.items():
                series = labels(listener=listener)
                count = logins["muster_successful_reauthentications_total", listener]
                out.add("muster_reauthentication_duration_seconds", series, count, suffix="_count")
                out.add("muster_reauthentication_duration_seconds", series, duration_s, suffix="_sum")
            for api, (buckets, sum_s) in latencies.items():
                _write_latency(out, api, buckets, sum_s)
            for topic, (messages, size_bytes) in produced.items():
                out.add("muster_produce_bytes_total", labels(topic=topic), size_bytes)
                out.add("muster_produce_messages_total", labels(topic=topic), messages)

        clients = ClientsSnapshot(
            tuple(self.client_series),
            len(self.client_instances),
            dict(self._pushes),
            self.client_series.left_out,
        )
        quotas = QuotasSnapshot.of(self.quotas, self.accepted)
        sections: tuple[Section, ...] = (
            lambda out: write_fetch(out, books),
            write,
            lambda out: write_clients(out, clients),
            lambda out: write_quotas(out, quotas),
        )
        if (cluster := self._kop_cluster) is not None:
            sections = (*sections, lambda out: write_kop(out, cluster, books))
        return sections


def _storage(path: Path | None) -> Iterator[tuple[str, int]]:
    """In a thread, since a file system may hang. Nothing if it cannot be queried."""
    with suppress(OSError):
        if path is not None:
            found = os.statvfs(path)
            yield "muster_storage_free_bytes", found.f_bavail * found.f_frsize
            yield "muster_storage_size_bytes", found.f_blocks * found.f_frsize


def _of_sessions(sessions: Sessions | None) -> dict[str, int]:
    return {
        "muster_incremental_fetch_sessions": len(sessions) if sessions is not None else 0,
        "muster_incremental_fetch_partitions_cached": sessions.partitions if sessions is not None else 0,
        "muster_incremental_fetch_session_evictions_total": sessions.evictions if sessions is not None else 0,
    }


def _write_latency(out: Exposition, api: str, buckets: Iterable[int], sum_s: float) -> None:
    name, series, counts = "muster_request_duration_seconds", labels(api=api), list(accumulate(buckets))
    for bound, count in zip(_BUCKET_NAMES, counts, strict=True):
        out.add(name, f'{series},le="{bound}"', count, suffix="_bucket")
    out.add(name, series, counts[-1], suffix="_count")
    out.add(name, series, sum_s, suffix="_sum")
