"""A real Apache Kafka of one node (KRaft, broker and controller in one), for the duration of a ``with`` block.

    with KafkaBroker({"group.max.size": "2"}) as broker:
        client = Consumer({"bootstrap.servers": broker.bootstrap_servers, ...})

Everything that Kafka does by default it does here, but for what :data:`QUICK` says.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from muster.actors.runtime.java import find_java
from pytest_muster.bound import bound
from tests.conformance.artifacts import FAST_START, Kafka, in_stock, kafka

QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.coordinator.append.linger.ms": "0",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": str(4 << 20),
    "controlled.shutdown.enable": "false",
}
"""Kafka properties that differ from its defaults, so that one node suffices and tests need not wait."""

ONE_NODE = {
    name: QUICK[name]
    for name in (
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.min.isr",
    )
}
"""Properties without which one node does not work, and the number of offsets partitions."""

START_SCRIPT = (
    *("-Xms1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"),
    *("-XX:+ExplicitGCInvokesConcurrent",),
)
"""Options of Java as ``kafka-server-start`` gives them, with a heap of 1 GB."""

_CLUSTER_ID = "Y29uZm9ybWFuY2UtbXVzdA"
_HEAP_MB = 512
_START_S = 120
_STOP_S = 60
_REQUEST_TIMEOUT_S = 1
_PORT_ATTEMPTS = 3


class BrokerFailed(RuntimeError):
    """The broker ended, or did not respond in time. The text has the end of its log."""


class KafkaBroker:
    """Starts with ``with`` (or :meth:`start`), serves on loopback, and is removed with its data at the end.

    Start it on a thread that lives as long as the broker: the broker gets SIGTERM when that thread ends, so that no
    broker outlives a killed test run. Only in that case its data remains in the temporary folder.
    """

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        *,
        release: Kafka | None = None,
        base: Mapping[str, str] = QUICK,
        heap_mb: int = _HEAP_MB,
        options: Sequence[str] = FAST_START,
        login: Mapping[str, str] | None = None,
        tls_port: int | None = None,
    ) -> None:
        """``properties``: Kafka's broker properties, in addition to ``base``; ``options``: those of Java; ``login``:
        those of librdkafka with which a client is let in; ``tls_port``: of a listener SSL beside the other one."""
        self.properties = {**base, **(properties or {})}
        self.release = release or kafka()
        self._heap_mb = heap_mb
        self._options = options
        self._login = login or {}
        self._tls = "" if tls_port is None else f",SSL://127.0.0.1:{tls_port}"
        self.bootstrap_servers = ""
        """``127.0.0.1:PORT`` once it serves."""
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def data(self) -> Path:
        """Its ``log.dirs``: a folder for each partition."""
        assert self._folder is not None, "not started"
        return self._folder / "data"

    @property
    def log(self) -> str:
        """The broker's log so far."""
        assert self._folder is not None, "not started"
        return (self._folder / "broker.log").read_text(errors="replace")

    def start(self) -> None:
        """Format the storage, start, and wait until Metadata names the broker. BrokerFailed."""
        assert self._process is None, "already started"
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            self._folder = Path(tempfile.mkdtemp(prefix="muster-kafka-"))
            try:
                self._launch(*free_ports(2))
                self._await_metadata()
                return
            except BaseException as error:
                taken = isinstance(error, BrokerFailed) and "Address already in use" in str(error)
                self.stop()
                if not taken or attempt == _PORT_ATTEMPTS:
                    raise

    def stop(self) -> None:
        """SIGTERM to the broker, SIGKILL to its process group if it has not ended in time; its data is deleted."""
        if self._process is not None:
            try:
                self._process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_STOP_S)
            finally:
                if self._process.poll() is None:
                    os.killpg(self._process.pid, signal.SIGKILL)
                    self._process.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._process = self._folder = None

    def kill(self) -> None:
        """SIGKILL; the broker starts again at once, at its address and on its data. Does not wait until it serves."""
        assert self._process is not None
        assert self._folder is not None
        self._process.kill()
        self._process.wait()
        self._spawn(self._folder / "server.properties")

    def __enter__(self) -> KafkaBroker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _launch(self, port: int, controller_port: int) -> None:
        assert self._folder is not None
        self.bootstrap_servers = f"127.0.0.1:{port}"
        config = self._folder / "server.properties"
        config.write_text(_properties_text(self._server_properties(port, controller_port)))
        self._run_format(config)
        self._spawn(config)

    def _spawn(self, config: Path) -> None:
        assert self._folder is not None
        command = self.release.command(
            "kafka.Kafka", str(config), heap_mb=self._heap_mb, options=self._options, log_level="INFO"
        )
        with (self._folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                bound(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _server_properties(self, port: int, controller_port: int) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}{self._tls}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}{self._tls}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL",
            "log.dirs": str(self.data),
            **self.properties,
        }

    def _run_format(self, config: Path) -> None:
        arguments = ["format", "--config", str(config), "--cluster-id", _CLUSTER_ID]
        command = self.release.command("kafka.tools.StorageTool", *arguments, heap_mb=_HEAP_MB)
        done = subprocess.run(bound(command), capture_output=True, text=True, timeout=_START_S)
        if done.returncode != 0:
            raise BrokerFailed(f"kafka-storage format failed:\n{done.stdout}{done.stderr}")

    def _await_metadata(self) -> None:
        assert self._process is not None
        retry = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 100}
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, **retry, **self._login}, logger=_silent())
        for _ in range(_START_S // _REQUEST_TIMEOUT_S):
            if self._process.poll() is not None:
                raise BrokerFailed(f"Kafka ended with {self._process.returncode}:\n{self.log[-4000:]}")
            try:
                if admin.list_topics(timeout=_REQUEST_TIMEOUT_S).brokers:
                    return
            except KafkaException:
                continue
        raise BrokerFailed(f"Kafka did not answer within {_START_S} s:\n{self.log[-4000:]}")


def archive_classes(release: Kafka) -> None:
    """Have the first broker of a release write its class archive as it ends. Raises JavaNotFound or BrokerFailed."""
    archive = release.class_archive
    java = subprocess.run([find_java(), "-version"], capture_output=True, text=True, check=True).stderr
    with in_stock(archive.parent, java) as missing:
        if missing:
            with KafkaBroker(release=release, options=(*FAST_START, f"-XX:ArchiveClassesAtExit={archive}")):
                pass


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago; another process may take them first."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _properties_text(properties: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in properties.items())


def _silent() -> logging.Logger:
    """librdkafka logs every attempt to connect to a broker that is still starting."""
    logger = logging.getLogger("conformance.starting")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
