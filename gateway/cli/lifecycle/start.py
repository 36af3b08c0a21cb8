"""The steps that start a cluster, each undone in reverse order."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from muster.actors.config import MusterConfig
from muster.actors.runtime.java import JavaNotFound, java_environment
from muster.actors.runtime.process import keep_files_private, log_folder
from muster.actors.runtime.settings import NAMESPACE, ClusterReady, ClusterSettings, LogFormat
from muster.actors.runtime.words import counted
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.lifecycle.config_checks import (
    check_certificates,
    check_listeners,
    check_tokens,
    check_users,
)
from muster.gateway.cli.lifecycle.ports import Ports
from muster.gateway.cli.lifecycle.zookeeper import ZooKeeperStart
from muster.gateway.cli.output import Steps
from muster.gateway.cli.ray import own_ray
from muster.gateway.cli.ray.given_ray import GivenRay
from muster.gateway.cli.ray.reach import listens
from muster.gateway.cli.storage import directory as storage
from muster.gateway.cli.storage.fit import cluster_id_in, prepare, refuse_broken, refuse_unfit

_LOOPBACK = "127.0.0.1"
_WATCH_INTERVAL_S = 1.0
_NODES_TIMEOUT_S = 300


class Start:
    """One start of Muster. ``undo`` reverts everything that was started, in reverse order."""

    def __init__(
        self,
        config: MusterConfig,
        address: str | None,
        progress: Steps,
        undo: contextlib.ExitStack,
        nodes: int = 1,
        log_format: LogFormat = "text",
    ) -> None:
        """Take ``address``, of a running Ray (None to start one), and ``nodes``, the number of nodes that it must have
        first."""
        self._log_format = log_format
        self._config = config
        self._address = address
        self._nodes = nodes
        self._progress = progress
        self._undo = undo
        self._storage = config.directory
        self._given: GivenRay | None = None
        self._own: own_ray.OwnRay | None = None
        self._checks: list[Callable[[], str | None]] = []

    def run(self) -> ClusterReady:
        """Check everything, then start everything; returns when it serves. CliError if it cannot start."""
        check_users(self._config)
        check_tokens(self._config)
        check_certificates(self._config)
        check_listeners(self._config, on_cluster=self._address is not None)
        keep_files_private()
        prepare(self._storage)
        self._undo.enter_context(storage.locked(self._storage))
        cluster_id = self._cluster_id()
        if self._address is not None:
            self._given = self._given_ray(self._address)
        self._forget_the_killed(self._given.address if self._given else None)
        if self._given is not None:
            self._await_nodes(self._given, cluster_id)
        ports = Ports()
        self._undo.callback(ports.release)
        gateway_ports, metrics_ports = self._choose(ports)
        environment = _java()
        zookeeper = ZooKeeperStart(self._config, self._storage, self._given, self._progress, self._undo)
        settings = zookeeper.run(
            ClusterSettings(
                config=self._config,
                storage=str(self._storage),
                bucket=self._config.bucket,
                cluster_id=cluster_id,
                zookeeper="",
                host=self._host,
                gateway_ports=gateway_ports,
                metrics_ports=metrics_ports,
                metrics_port=self._config.first_metrics_port,
                log_format=self._log_format,
            )
        )
        hosts = settings.zookeeper
        state = self._given_state(self._given, hosts) if self._given else self._own_ray(environment, hosts)
        self._undo.callback(self._remove_state)
        storage.write_state(self._storage, state)
        ports.release()
        ready = self._cluster(settings)
        serving = replace(state, bootstrap=ready.bootstrap, metrics=ready.metrics, cluster_id=cluster_id)
        storage.write_state(self._storage, serving)
        return ready

    def _cluster_id(self) -> str:
        if self._config.bucket is None:
            return cluster_id_in(self._storage)
        from muster.gateway.cli.storage import bucket

        if self._address is not None and self._config.zookeeper_connect is None:
            raise CliError(
                "storage.path in object storage, on a Ray cluster, needs a ZooKeeper of its own: name it with "
                "--zookeeper HOSTS. That of Muster has a file that all nodes share"
            )
        self._progress.step(f"checking {self._config.bucket}")
        refuse_broken(self._config.bucket, bucket.findings_of(self._config.bucket, thorough=False))
        return bucket.cluster_id_of(self._config.bucket, self._storage)

    def watch(self, stopping: Callable[[], bool]) -> None:
        """Wait for a signal. CliError if something that the whole cluster depends on has ended by itself."""
        while not stopping():
            self._check()
            time.sleep(_WATCH_INTERVAL_S)

    def _check(self) -> None:
        for check in self._checks:
            if (missing := check()) is not None:
                raise CliError(f"{missing}; see the logs in {self._storage}, then start again")

    @property
    def _host(self) -> str | None:
        """Host of listeners without one: loopback, unless other nodes must be reached."""
        return None if self._address else _LOOPBACK

    def _choose(self, ports: Ports) -> tuple[tuple[tuple[int, ...], ...] | None, tuple[int, ...] | None]:
        """Return ports of each gateway's listeners, and of /metrics. Other nodes choose free ones themselves."""
        count, listeners = self._config.gateway_count, self._config.all_listeners
        metrics = self._config.first_metrics_port
        if self._address is None:
            hint = "choose another with --port, or --port 0 for free ones"
            if len(listeners) > 1:
                hint = "choose another in listeners, or 0 for free ones"
            taken = [ports.take(each.host or _LOOPBACK, each.port, count or 1, hint) for each in listeners]
            http = listeners[0].host or _LOOPBACK
            return (
                tuple(zip(*taken, strict=True)),
                ports.take(
                    http, metrics, count or 1, "choose another with --set metrics.port=PORT, or 0 for free ones"
                ),
            )
        if count is None:
            return None, None
        of_listeners = [_counting_up(each.port, count) for each in listeners]
        return tuple(zip(*of_listeners, strict=True)), _counting_up(metrics, count)

    def _own_ray(self, environment: dict[str, str], hosts: str) -> storage.RunState:
        self._progress.step("starting Ray")
        own = self._own = own_ray.OwnRay(self._storage, environment)
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

    def _given_ray(self, address: str) -> GivenRay:
        self._progress.step(f"connecting to Ray at {address}")
        given = GivenRay(address)
        self._undo.callback(given.close)
        _take_signals_back()
        self._checks.append(given.missing)
        if os.environ.get("RAY_AUTH_MODE") != "token":
            self._progress.step(
                f"Ray at {given.address} requires no token: who reaches it can run programs on all its nodes"
            )
        return given

    def _await_nodes(self, given: GivenRay, cluster_id: str) -> None:
        """Wait for the requested nodes, or those that join in time; all must see the storage."""
        from muster.gateway.cli.storage.shared import check_every_node

        if self._nodes > 1:
            self._progress.step(f"waiting for {self._nodes} nodes, {_NODES_TIMEOUT_S} s at most")
            found = given.wait_for_nodes(self._nodes, _NODES_TIMEOUT_S)
            self._check()
            if found < self._nodes:
                self._progress.step(
                    f"continuing with {counted(found, 'node')}; others get their gateway when they join"
                )
        given.check_labels(self._config)
        if self._config.bucket is not None:
            return
        self._progress.step(f"checking that every node sees {self._storage}, and that it is fit")
        refuse_unfit(self._storage, check_every_node(self._storage, cluster_id))

    def _given_state(self, given: GivenRay, hosts: str) -> storage.RunState:
        return storage.RunState(
            pid=os.getpid(),
            namespace=NAMESPACE,
            ray_address=given.address,
            ray_token_path=given.token_path,
            ray_temp_dir=None,
            zookeeper=hosts,
        )

    def _cluster(self, settings: ClusterSettings) -> ClusterReady:
        from muster.gateway import cluster  # imports ray, which reads its environment only then

        self._progress.step("starting controller, log actors, reconciler and gateways")
        try:
            cluster.take_over(settings, self._progress.step)
        except cluster.ClusterError as error:  # we must not stop what runs here
            raise CliError(str(error)) from error
        self._undo.callback(self._stop_cluster, settings.namespace)
        try:
            return cluster.start_cluster(settings, self._progress.step)
        except cluster.ClusterError as error:
            raise CliError(
                f"the cluster did not come up: {error}; see the logs in {log_folder(self._storage)}"
            ) from error

    def _remove_state(self) -> None:
        """Remove the state, unless only this host has left Ray: the actors on other nodes still serve and are found by
        it."""
        if self._given is None or self._given.responds or not self._given.listens:
            storage.remove_state(self._storage)

    def _stop_cluster(self, namespace: str) -> None:
        """Stop in order; no effect if Ray cannot be reached."""
        from muster.gateway import cluster

        used = self._given or self._own
        if used is None or used.responds:
            cluster.stop_cluster(namespace)

    def _forget_the_killed(self, ray_address: str | None) -> None:
        """Remove the state of a ``muster up`` that was killed. We hold the lock, so it no longer runs.

        Its actors still serve unless its Ray was its own. A start on that Ray takes over; on any other it is refused.
        """
        left = storage.read_state(self._storage)
        if left is None or (not left.is_own_ray and left.ray_address == ray_address):
            return
        if left.is_own_ray:
            own_ray.remove_temp_dir(Path(left.ray_temp_dir or ""))
        elif listens(left.ray_address):
            raise CliError(
                f"a muster up on storage {self._storage} was killed, but its actors still serve on Ray at "
                f"{left.ray_address}; take over with --address {left.ray_address}, or stop them with muster down first"
            )
        storage.remove_state(self._storage)


def _take_signals_back() -> None:
    """Set our handler again: Ray sets its own for SIGTERM when it starts; SIGINT still has ours."""
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))


def _counting_up(first: int, count: int) -> tuple[int, ...]:
    return tuple(first + index if first else 0 for index in range(count))


def _java() -> dict[str, str]:
    try:
        return java_environment()
    except JavaNotFound as error:
        raise CliError(str(error)) from error
