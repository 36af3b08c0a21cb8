"""The steps from nothing to a cluster that serves, each undone in reverse order."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from actors.config import MusterConfig
from actors.java import JavaNotFound, java_environment
from actors.runtime import log_folder
from actors.settings import NAMESPACE, ClusterReady, ClusterSettings
from actors.zookeeper import EmbeddedZooKeeper, ZooKeeperStartError
from gateway.cli import own_ray, storage
from gateway.cli.errors import CliError
from gateway.cli.output import Progress
from gateway.cli.ports import Ports
from gateway.security.credentials import CredentialsError
from gateway.security.session import Sasl
from placement import zookeeper

_ZOOKEEPER_TIMEOUT_S = 10
_LOOPBACK = "127.0.0.1"
_WATCH_INTERVAL_S = 1.0


class Start:
    """One start of Muster. ``undo`` takes back whatever was started, in reverse order."""

    def __init__(
        self, config: MusterConfig, address: str | None, progress: Progress, undo: contextlib.ExitStack
    ) -> None:
        """``address``: of a Ray that runs already; None to start one."""
        self._config = config
        self._address = address
        self._progress = progress
        self._undo = undo
        self._storage = Path(config.storage_path).absolute()
        self._checks: list[Callable[[], str | None]] = []

    def run(self) -> ClusterReady:
        """Check everything, then start everything; returns when it serves. CliError if something is in the way."""
        _check_users(self._config)
        cluster_id = storage.prepare(self._storage)
        self._undo.enter_context(storage.locked(self._storage))
        self._forget_the_killed()
        ports = Ports(self._host() or "")
        self._undo.callback(ports.release)
        gateway_ports, metrics_ports = self._choose(ports)
        environment = _java()
        hosts = self._zookeeper()
        state = self._ray(environment, hosts, cluster_id)
        settings = ClusterSettings(
            config=self._config,
            storage=str(self._storage),
            cluster_id=cluster_id,
            zookeeper=hosts,
            host=self._host(),
            port=self._config.listener[1],
            gateway_ports=gateway_ports,
            metrics_ports=metrics_ports,
        )
        self._undo.callback(storage.remove_state, self._storage)
        storage.write_state(self._storage, state)
        ports.release()
        ready = self._cluster(settings)
        serving = dataclasses.replace(state, bootstrap=ready.bootstrap, metrics=ready.metrics)
        storage.write_state(self._storage, serving)
        return ready

    def watch(self, stopping: Callable[[], bool]) -> None:
        """Until a signal comes. CliError if something that was started here has ended by itself."""
        while not stopping():
            for check in self._checks:
                if (missing := check()) is not None:
                    raise CliError(f"{missing} ended by itself; see the logs in {self._storage}, then start again")
            time.sleep(_WATCH_INTERVAL_S)

    def _host(self) -> str | None:
        """Where gateways listen: what ``listeners`` says, else loopback unless other nodes are there to be reached."""
        return self._config.listener[0] or (None if self._address else _LOOPBACK)

    def _choose(self, ports: Ports) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        """Ports of Kafka and of /metrics. On a Ray of many nodes only the nodes know what is free."""
        count, first, metrics = self._config.gateway_count, self._config.listener[1], self._config.metrics_port
        if self._address is None:
            return (
                ports.take(first, count or 1, "choose another with --port, or --port 0 for free ones"),
                ports.take(metrics, count or 1, "choose another with --set metrics.port=PORT"),
            )
        if count is None:
            return None, None
        return _counting_up(first, count), _counting_up(metrics, count)

    def _zookeeper(self) -> str:
        if hosts := self._config.zookeeper_connect:
            self._progress.step(f"connecting to ZooKeeper at {hosts}")
            _check_zookeeper(hosts)
            return hosts
        self._progress.step("starting ZooKeeper")
        host = _LOOPBACK if self._address is None else _own_address()
        try:
            server = EmbeddedZooKeeper.start(self._storage / "zookeeper", host=host)
        except ZooKeeperStartError as error:
            raise CliError(str(error)) from error
        self._undo.callback(server.stop)
        self._checks.append(lambda: None if server.alive else "ZooKeeper")
        return server.hosts

    def _ray(self, environment: dict[str, str], hosts: str, cluster_id: str) -> storage.RunState:
        if self._address is not None:
            return self._given_ray(self._address, hosts, cluster_id)
        self._progress.step("starting Ray")
        own = own_ray.OwnRay(self._storage, environment)
        self._undo.callback(own.stop)
        own.start()
        _take_signals_back()
        self._checks.append(own.missing)
        return storage.RunState(
            pid=os.getpid(),
            namespace=NAMESPACE,
            ray_address=own.address,
            ray_token_path=str(own.token_path),
            ray_temp_dir=str(own.temp_dir),
            zookeeper=hosts,
        )

    def _given_ray(self, address: str, hosts: str, cluster_id: str) -> storage.RunState:
        self._progress.step(f"connecting to Ray at {address}")
        own_ray.connect(address, None)
        import ray

        from gateway.cli.shared_storage import check_every_node

        self._undo.callback(ray.shutdown)
        _take_signals_back()
        self._progress.step(f"checking that every node sees {self._storage}")
        check_every_node(self._storage, cluster_id)
        return storage.RunState(
            pid=os.getpid(),
            namespace=NAMESPACE,
            ray_address=ray.get_runtime_context().gcs_address,
            ray_token_path=os.environ.get("RAY_AUTH_TOKEN_PATH"),
            ray_temp_dir=None,
            zookeeper=hosts,
        )

    def _cluster(self, settings: ClusterSettings) -> ClusterReady:
        from gateway import cluster  # imports ray, which reads its environment only then

        self._progress.step("starting controller, log actors, reconciler and gateways")
        self._undo.callback(cluster.stop_cluster, settings)
        try:
            return cluster.start_cluster(settings, self._progress.step)
        except cluster.ClusterError as error:
            raise CliError(
                f"the cluster did not come up: {error}; see the logs in {log_folder(self._storage)}"
            ) from error

    def _forget_the_killed(self) -> None:
        """Remove what a ``muster up`` left that was killed. We hold the lock: it is not there any more."""
        left = storage.read_state(self._storage)
        if left and left.ray_temp_dir:
            own_ray.remove_temp_dir(Path(left.ray_temp_dir))
        storage.remove_state(self._storage)


def _take_signals_back() -> None:
    """Ray sets its own handler of SIGTERM when it starts; SIGINT still has ours."""
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))


def _counting_up(first: int, count: int) -> tuple[int, ...]:
    return tuple(first + index if first else 0 for index in range(count))


def _java() -> dict[str, str]:
    try:
        return java_environment()
    except JavaNotFound as error:
        raise CliError(str(error)) from error


def _check_users(config: MusterConfig) -> None:
    try:
        if (sasl := Sasl.of(config)) is not None:
            sasl.close()
    except CredentialsError as error:
        raise CliError(f"{error}; muster user add writes them") from error


def _check_zookeeper(hosts: str) -> None:
    try:
        zookeeper.connect(hosts, timeout_s=_ZOOKEEPER_TIMEOUT_S).shut()
    except zookeeper.ZooKeeperUnreachable as error:
        raise CliError(f"{error}; check --zookeeper, and that it runs") from error


def _own_address() -> str:
    """This node's address, as other nodes reach it."""
    import ray.util

    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
