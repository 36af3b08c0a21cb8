"""The two servers that are compared, each a process family of its own on loopback, and what they cost."""

from __future__ import annotations

import asyncio
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import Enum
from pathlib import Path

import psutil

from benchmarks.cluster import Cluster
from muster.actors.wire.kafka.codec import ErrorCode
from tests.certificates import Authority
from tests.conformance.kafka import ONE_NODE, START_SCRIPT, KafkaBroker, free_ports
from tests.raw_client import connect

PARTITIONS = 4
"""Partitions of ``__consumer_offsets``."""
_BOTH = {"group.max.session.timeout.ms": "1800000"}
KAFKA_PROPERTIES = {**ONE_NODE, **_BOTH}
"""Deviations from Kafka's defaults."""
MUSTER_PROPERTIES = {"offsets.topic.num.partitions": str(PARTITIONS), **_BOTH}
"""Deviations from Muster's defaults."""
_HEAP_MB = 1024
_INCREMENTAL_ALTER_CONFIGS = (44, 1)
_BROKER, _SET = 4, 0


class Kind(Enum):
    """Protection of servers."""

    PLAIN = "plain"
    TLS = "TLS"
    """They are measured at a listener SSL; what is prepared comes by another one."""
    ACLS = "ACLs"
    """With an authorizer; a row creates the ACLs."""


class Server(ABC):
    """A running server."""

    name: str
    address: str
    """``host:port`` of its broker, or first gateway."""
    addresses: Sequence[str]
    """Addresses of its broker, or all gateways."""
    tls_address: str | None = None
    """Address for measurements with TLS."""
    data: Path
    """The folder below which the topics' partitions have theirs, ``TOPIC-PARTITION`` each."""

    @property
    def load_address(self) -> str:
        """Address for measurements."""
        return self.tls_address or self.address

    @abstractmethod
    def processes(self) -> dict[str, list[psutil.Process]]:
        """Return all processes of the server, by what they are; as found by the last :meth:`refresh`, if any."""

    def refresh(self) -> None:  # noqa: B027
        """Find the processes again, if any has ended or started: offsets actors do on the first request for them."""

    @abstractmethod
    def kill_coordinator(self, partition: int) -> float:
        """SIGKILL the process that owns the groups of a partition of ``__consumer_offsets``.

        Returns when, on the clock of :func:`time.monotonic`.
        """

    def keep_logs(self, folder: Path) -> None:  # noqa: B027
        """Copy what the server has logged to ``folder``, if it does not stay anyway."""

    def cpu_s(self) -> dict[str, float]:
        """Return the processor time used so far, user and system, by what the processes are."""
        return {role: sum(map(_cpu_s, processes)) for role, processes in self.processes().items()}

    def pss_bytes(self) -> dict[str, int]:
        """Return the memory; pages that processes share are split between them (proportional set size)."""
        return {
            role: sum(process.memory_full_info().pss for process in processes)
            for role, processes in self.processes().items()
        }

    def segments(self, topic: str) -> list[Path]:
        """Return the segment files of a topic."""
        return sorted(self.data.rglob(f"{topic}-*/*.log"))

    def sync(self, *, every_append: bool) -> None:
        """Acknowledge records once they are synced, or before that; the default of all topics."""
        asyncio.run(self._alter("log.flush.interval.messages", "1" if every_append else str((1 << 63) - 1)))

    async def _alter(self, name: str, value: str) -> None:
        """Set a property of all brokers; librdkafka's admin client cannot name all of them."""
        configs = [{"name": name, "config_operation": _SET, "value": value}]
        resource = {"resource_type": _BROKER, "resource_name": "", "configs": configs}
        (connection,) = await connect([self.address], 1)
        response = await connection.call(_INCREMENTAL_ALTER_CONFIGS, {"resources": [resource], "validate_only": False})
        connection.close()
        if response.responses[0].error_code is not ErrorCode.none:
            raise RuntimeError(f"{self.name} does not take {name}={value}: {response.responses[0].error_message}")


class Kafka(Server):
    name = "Kafka"

    def __init__(self, broker: KafkaBroker) -> None:
        self.address = broker.bootstrap_servers
        self.addresses = [self.address]
        self.data = broker.data
        self._broker = broker
        self._processes = {"broker": [psutil.Process(broker.pid)]}

    def processes(self) -> dict[str, list[psutil.Process]]:
        return self._processes

    def kill_coordinator(self, partition: int) -> float:
        """Kill the broker: it owns all partitions."""
        killed_s = time.monotonic()
        self._broker.kill()
        self._processes = {"broker": [psutil.Process(self._broker.pid)]}
        return killed_s


class Muster(Server):
    name = "Muster"

    def __init__(self, cluster: Cluster) -> None:
        self.address = cluster.bootstrap[0]
        self.addresses = cluster.bootstrap
        self.data = cluster.storage
        self._cluster = cluster
        self._processes: dict[str, list[psutil.Process]] = {}
        self._family: set[int] = set()

    def processes(self) -> dict[str, list[psutil.Process]]:
        if not self._processes:
            self.refresh()
        return self._processes

    def refresh(self) -> None:
        family = self._cluster.family()
        if self._family != family:
            self._processes, self._family = self._found(), family

    def kill_coordinator(self, partition: int) -> float:
        process = self._cluster.actors("offsets")[f"offsets-{partition}"]  # takes a second or two
        killed_s = time.monotonic()
        process.kill()
        return killed_s

    def keep_logs(self, folder: Path) -> None:
        self._cluster.keep_logs(folder)

    def _found(self) -> dict[str, list[psutil.Process]]:
        actors = {kind: self._cluster.actors(kind) for kind in ("gateway", "offsets", "log")}
        found = {kind: list(processes.values()) for kind, processes in actors.items()}
        found["other"] = list(self._cluster.others(*actors.values()).values())
        return found


@contextmanager
def muster(folder: Path, *, gateways: int = 1, kind: Kind = Kind.PLAIN) -> Iterator[Muster]:
    folder.mkdir(parents=True, exist_ok=True)
    properties, tls_address = {**MUSTER_PROPERTIES, **_properties_of(kind, folder)}, None
    if kind is Kind.TLS:
        port, tls_port = free_ports(2)
        properties["listeners"] = f"PLAINTEXT://127.0.0.1:{port},SSL://127.0.0.1:{tls_port}"
        tls_address = f"127.0.0.1:{tls_port}"
    with Cluster(folder, gateways=gateways, properties=properties) as cluster:
        found = Muster(cluster)
        found.tls_address = tls_address
        yield found


@contextmanager
def kafka(folder: Path | None = None, *, kind: Kind = Kind.PLAIN) -> Iterator[Kafka]:
    """Start Kafka. ``folder``: for its certificate."""
    properties, tls_port = {**KAFKA_PROPERTIES, **_properties_of(kind, folder)}, None
    if kind is Kind.TLS:
        (tls_port,) = free_ports(1)
    with KafkaBroker(properties, base={}, heap_mb=_HEAP_MB, options=START_SCRIPT, tls_port=tls_port) as broker:
        found = Kafka(broker)
        found.tls_address = None if tls_port is None else f"127.0.0.1:{tls_port}"
        yield found


def _properties_of(kind: Kind, folder: Path | None) -> dict[str, str]:
    if kind is Kind.ACLS:
        return {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",  # a broker of Kafka is a client of its own
        }
    if kind is Kind.PLAIN or folder is None:
        return {}
    keystore = folder / "keystore.pem"
    if not keystore.exists():
        Authority().issue("CN=bench").write(keystore)
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(keystore)}


@contextmanager
def started(name: str, folder: Path) -> Iterator[Server]:
    """Start a server by its name, with its data in ``folder`` if it is Muster's."""
    with muster(folder) if name == Muster.name else kafka() as server:
        yield server


class NotStarted(Server):
    """Stands for a server that a row starts itself."""

    def __init__(self, name: str) -> None:
        self.name = name

    def processes(self) -> dict[str, list[psutil.Process]]:
        return {}

    def kill_coordinator(self, partition: int) -> float:
        raise NotImplementedError


@contextmanager
def both(folder: Path, kind: Kind = Kind.PLAIN) -> Iterator[tuple[Muster, Kafka]]:
    """Start both at once: each has less processor time by what the other uses at rest."""
    with ExitStack() as stack:
        yield stack.enter_context(muster(folder, kind=kind)), stack.enter_context(kafka(folder, kind=kind))


def _cpu_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def cores() -> int:
    """Count the cores that both servers and the load generator share."""
    return len(os.sched_getaffinity(0))
