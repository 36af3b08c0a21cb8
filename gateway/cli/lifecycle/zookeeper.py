"""The ZooKeeper of a start: one that runs elsewhere, or Muster's own, which is started and kept running."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from kazoo.exceptions import NoAuthError, NoNodeError

from muster.actors.config import MusterConfig
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.runtime.storage.reserve import Reserve
from muster.actors.runtime.zookeeper import (
    EmbeddedZooKeeper,
    ZooKeeperEndedAtStart,
    ZooKeeperStartError,
    protect,
    with_credentials,
)
from muster.actors.zookeeper.server import Restarts
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.lifecycle.ensemble import ensemble_of, found, node_addresses, set_founded
from muster.gateway.cli.lifecycle.zookeeper_checks import check_belongs, remedies
from muster.gateway.cli.output import Steps
from muster.gateway.cli.ray.given_ray import GivenRay
from muster.placement.zookeeper import client as zookeeper
from muster.placement.zookeeper.access import SENSITIVE, Access
from muster.placement.zookeeper.ensemble import Ensemble

log = logging.getLogger(__name__)

_TIMEOUT_S = 10
_ENSEMBLE_TIMEOUT_S = 60
_LOOPBACK = "127.0.0.1"
_INTERVAL_S = 1.0


class ZooKeeperStart:
    """One start. ``undo`` ends what was started."""

    def __init__(
        self, config: MusterConfig, storage: Path, given: GivenRay | None, progress: Steps, undo: contextlib.ExitStack
    ) -> None:
        """``given``: the Ray of others that Muster is started on; None: it starts its own."""
        self._config = config
        self._storage = storage
        self._given = given
        self._progress = progress
        self._undo = undo

    def run(self, settings: ClusterSettings) -> ClusterSettings:
        """Return the settings with a ZooKeeper that serves: the one that is configured, or Muster's own. CliError."""
        if hosts := self._config.zookeeper_connect:
            self._progress.step(f"connecting to ZooKeeper at {hosts}")
            check_zookeeper(hosts, self._config.zookeeper_access)
            self._check_belongs(hosts, self._config.zookeeper_access, settings.cluster_id, None)
            self._keep(None)
            return replace(settings, zookeeper=hosts, zookeeper_access=self._config.zookeeper_access)
        try:
            nodes = None if self._given is None else node_addresses()
            ensemble = ensemble_of(self._config, self._storage / "zookeeper", nodes)
            if ensemble is not None:
                return self._with_ensemble(settings, ensemble)
            server, access = self._server(settings.cluster_id)
        except ZooKeeperEndedAtStart as error:
            hint = remedies(self._storage, self._storage / "zookeeper")
            raise CliError(f"{error}. If its data are damaged: {hint}") from error
        except (ZooKeeperStartError, zookeeper.ZooKeeperUnreachable) as error:
            raise CliError(str(error)) from error
        return replace(settings, zookeeper=server.hosts, zookeeper_access=access)

    def _server(self, cluster_id: str) -> tuple[EmbeddedZooKeeper, Access]:
        """Start Muster's only server, on this node."""
        self._progress.step("starting ZooKeeper")
        host = _LOOPBACK if self._given is None else _own_address()
        server = EmbeddedZooKeeper.start(self._storage / "zookeeper", host=host, lib=self._config.zookeeper_server_lib)
        self._undo.callback(server.stop)
        self._keep(server)
        access = server.secure()
        self._check_belongs(server.hosts, access, cluster_id, server.data_dir)
        return server, access

    def _with_ensemble(self, settings: ClusterSettings, ensemble: Ensemble) -> ClusterSettings:
        """Start Muster's own ensemble, or find it running."""
        from muster.gateway import cluster

        folder = self._storage / "zookeeper"
        self._progress.step(f"starting ZooKeeper on {', '.join(server.address for server in ensemble.servers)}")
        try:
            cluster.refuse_other(settings.cluster_id, settings.namespace)
            found(ensemble, folder)
            access = with_credentials(folder)
            settings = replace(settings, zookeeper=ensemble.hosts, zookeeper_access=access)
            self._undo.callback(self._stop_servers, settings.namespace)
            cluster.start_servers(settings, ensemble)
        except cluster.ClusterError as error:
            raise CliError(str(error)) from error
        data = Path(settings.config.zookeeper_data_dir) / settings.cluster_id
        try:
            protect(ensemble.hosts, access, _ENSEMBLE_TIMEOUT_S)
        except zookeeper.ZooKeeperUnreachable as error:
            raise CliError(
                f"{error}: no majority of the servers has its data, or they do not reach each other; see zookeeper.log "
                f"below {data} on their nodes. If the data of two of them are lost: {remedies(self._storage, data)}"
            ) from error
        self._check_belongs(ensemble.hosts, access, settings.cluster_id, data)
        set_founded(ensemble, folder)
        self._keep(None)
        return settings

    def _stop_servers(self, namespace: str) -> None:
        from muster.gateway import cluster

        if self._given is not None and self._given.responds:
            cluster.stop_servers(namespace)

    def _check_belongs(self, hosts: str, access: Access, cluster_id: str, data_dir: Path | None) -> None:
        zk = zookeeper.connect(hosts, access, timeout_s=_TIMEOUT_S)
        try:
            check_belongs(zk, self._storage, cluster_id, data_dir)
        finally:
            zk.shut()

    def _keep(self, server: EmbeddedZooKeeper | None) -> None:
        upkeep = Upkeep(self._storage, server, self._progress.note)
        self._undo.callback(upkeep.stop)
        upkeep.start()


class Upkeep:
    """Thread of its own: a start of the cluster waits for the parts that it keeps running."""

    def __init__(self, storage: Path, server: EmbeddedZooKeeper | None, note: Callable[[str], None]) -> None:
        """Take ``server``: Muster's own ZooKeeper, if it has one. ``note`` gets messages for the operator."""

        def say(text: str) -> None:
            with suppress(OSError):  # its terminal is gone, or its output is a file on the full disk
                note(text)

        self._reserve = Reserve(storage)
        self._server = None if server is None else Restarts(server, say)
        self._note = say
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, before ZooKeeper is stopped on purpose. A restart that is under way ends with ZooKeeper's stop."""
        self._ending.set()

    def _run(self) -> None:
        failed: str | None = None
        while True:
            try:
                if (text := self._reserve.keep()) is not None:
                    self._note(text)
                failed = None
            except OSError as error:
                if failed != str(error):
                    failed = str(error)
                    log.warning("the reserve of the storage cannot be kept: %s", error)
            if self._server is not None:
                self._server.check()
            if self._ending.wait(_INTERVAL_S):
                return


def check_zookeeper(hosts: str, access: Access) -> None:
    """Raise CliError if ZooKeeper does not respond, or does not let Muster read nodes that an earlier Muster
    protected."""
    try:
        zk = zookeeper.connect(hosts, access, timeout_s=_TIMEOUT_S)
        try:
            for path in SENSITIVE:
                with contextlib.suppress(NoNodeError):
                    zk.call(zk.get_async, path)
        finally:
            zk.shut()
    except zookeeper.ZooKeeperUnreachable as error:
        raise CliError(f"{error}; check --zookeeper, and that it runs") from error
    except NoAuthError as error:
        raise CliError(
            f"ZooKeeper at {hosts} does not let this Muster read {path}: set zookeeper.credentials.file, or the "
            "certificate, with which its nodes were created; for those of Muster's own ZooKeeper, the file "
            "zookeeper/credentials of its storage directory"
        ) from error


def _own_address() -> str:
    """Return this node's address, as other nodes reach it."""
    import ray.util

    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
