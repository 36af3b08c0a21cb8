"""The Ray actors ``zookeeper-<id>``: each runs one server of Muster's own ensemble, on the disk of its node."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from pathlib import Path

from muster.actors.runtime.actor import Actor
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.runtime.started import Started
from muster.actors.zookeeper.server import EnsembleServer, Restarts
from muster.placement.zookeeper.access import read_credentials
from muster.placement.zookeeper.ensemble import ensemble_file, read_ensemble

log = logging.getLogger(__name__)

KIND = "zookeeper"
_LOOK_S = 0.5


class ZooKeeperActor(Actor):
    """``zookeeper-<id>``. The server ends with this process, in whatever way that ends."""

    def __init__(self, settings: ClusterSettings, number: int) -> None:
        super().__init__(settings, b"", name_of(number))
        self._number = number

    async def _start(self) -> Started:
        node_id, address = self._node_and_address()
        self._server = await asyncio.to_thread(self._begin, address)
        log.info("ZooKeeper listens on %s, its data are in %s", self._server.hosts, self._server.data_dir)
        self._restarting = asyncio.get_running_loop().create_task(self._restart())
        return Started(pid=os.getpid(), node_id=node_id)

    def _begin(self, address: str) -> EnsembleServer:
        config, access = self.settings.config, self.settings.zookeeper_access
        folder = folder_of(self.settings)
        ensemble = read_ensemble(ensemble_file(folder))
        own = None if ensemble is None else ensemble.at(address)
        if ensemble is None or own is None or own.id != self._number:
            raise RuntimeError(f"{ensemble_file(folder)} has no server {self._number} at this node, {address}")
        data = Path(config.zookeeper_data_dir).expanduser() / self.settings.cluster_id
        in_use = {f"{ensemble.id}-{server.id}" for server in ensemble.servers}  # all are here if nodes share a home
        for other in data.glob(f"{ensemble.id}-*"):
            if other.name not in in_use:  # of a server that was replaced
                shutil.rmtree(other, ignore_errors=True)
        former = folder / "version-2"
        return EnsembleServer.begin(
            data / f"{ensemble.id}-{self._number}",
            ensemble,
            self._number,
            read_credentials(Path(access.credentials_file or "")),
            copied_from=former if former.exists() else None,
            lib=config.zookeeper_server_lib,
        )

    async def _restart(self) -> None:
        restarts = Restarts(self._server, log.warning)
        while True:
            await asyncio.sleep(_LOOK_S)
            await asyncio.to_thread(restarts.check)

    async def stop(self) -> None:
        if self._started is None or not self._started.done() or self._started.exception():
            return
        self._restarting.cancel()
        await asyncio.to_thread(self._server.stop)


def name_of(number: int) -> str:
    """Return the name of the actor of that server."""
    return f"{KIND}-{number}"


def folder_of(settings: ClusterSettings) -> Path:
    """Return the folder, in the storage, of the ensemble's file and credentials."""
    return Path(settings.storage) / "zookeeper"
