"""Keeps the servers of Muster's own ensemble running, each on the node that the ensemble's file names."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from kazoo.exceptions import KazooException

from muster.actors.controller.nodes import NodeError
from muster.actors.controller.supervisor import NodeAway, Supervisor, detached
from muster.actors.runtime.files import write_atomically
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.zookeeper.actor import ZooKeeperActor, folder_of, name_of
from muster.actors.zookeeper.server import administrator
from muster.placement.zookeeper.access import read_credentials
from muster.placement.zookeeper.client import ZooKeeperClient, ZooKeeperUnreachable, connect
from muster.placement.zookeeper.ensemble import Ensemble, InvalidEnsemble, ensemble_file, modes, read_ensemble

log = logging.getLogger(__name__)

_CONFIG = "/zookeeper/config"
_RETRY_S = 2.0
_CONNECT_S = 10.0


@dataclass(frozen=True, slots=True)
class Replacement:
    number: int
    address: str


class ZooKeeperServers:
    """For the controller's event loop. They do not need a controller that serves: it does not start without them."""

    def __init__(self, settings: ClusterSettings, supervisor: Supervisor) -> None:
        self._settings = settings
        self._supervisor = supervisor
        self._file = ensemble_file(folder_of(settings))
        self.zk: ZooKeeperClient | None = None
        """The controller's, once it has one."""
        self._ensemble: Ensemble | None = None
        self._replacing = asyncio.Lock()

    async def begin(self) -> None:
        """Manage the servers, if Muster has an ensemble of its own. Raises InvalidEnsemble."""
        if self._settings.config.zookeeper_connect is not None:
            return
        self._ensemble = await asyncio.to_thread(read_ensemble, self._file)
        if self._ensemble is not None:
            for server in self._ensemble.servers:
                self._manage(server.id)

    def _manage(self, number: int) -> None:
        def make(_: str | None) -> Any:
            assert self._ensemble is not None
            node_id = _node_at(self._ensemble.server(number).address)
            namespace = self._settings.namespace
            return detached(
                ZooKeeperActor, name_of(number), namespace, self._settings, number, node_id=node_id, pinned=True
            )

        self._supervisor.manage(name_of(number), make)

    async def conform(self) -> None:
        """Have the ensemble know the servers that the file has: a controller may have ended in between."""
        zk = self.zk
        while self._ensemble is not None and zk is not None:
            try:
                self._ensemble = await asyncio.to_thread(read_ensemble, self._file) or self._ensemble
                found, _ = await asyncio.to_thread(zk.call, zk.get_async, _CONFIG)
                joining, leaving = self._ensemble.lacking(found.decode()), self._ensemble.superfluous(found.decode())
                if not joining and not leaving:
                    return
                log.info("the ensemble gets %s in place of server %s", joining, leaving)
                await asyncio.to_thread(self._reconfigure, ",".join(joining) or None, ",".join(leaving) or None)
            except (InvalidEnsemble, KazooException, ZooKeeperUnreachable) as error:
                log.warning("the ensemble cannot be changed yet: %s", error or type(error).__name__)
                await asyncio.sleep(_RETRY_S)

    def _reconfigure(self, joining: str | None, leaving: str | None) -> None:
        access = self._settings.zookeeper_access
        zk = connect(self._settings.zookeeper, access, timeout_s=_CONNECT_S)
        try:
            identity = administrator(read_credentials(Path(access.credentials_file or "")))
            zk.call(zk.add_auth_async, "digest", identity)
            zk.call(zk.reconfig_async, joining, leaving, None, -1)
        finally:
            zk.shut()

    async def replacement(self, old: str, new: str | None) -> Replacement:
        """Return how the server of the node at address ``old`` is replaced by one at address ``new``.

        ``new`` None: on any live node without a server. Raises NodeError.
        """
        ensemble = self._ensemble
        if ensemble is None:
            raise NodeError("Muster runs no ensemble of ZooKeeper servers")
        server = ensemble.at(old)
        if server is None:
            known = ", ".join(each.address for each in ensemble.servers)
            raise NodeError(f"no ZooKeeper server of Muster is at {old}; they are at {known}")
        free = sorted(set(await asyncio.to_thread(_addresses)) - {each.address for each in ensemble.servers})
        if not free:
            raise NodeError("every live node has a ZooKeeper server already; add a node first")
        if new is not None and new not in free:
            raise NodeError(f"{new} is not the address of a live node without a server; such are {', '.join(free)}")
        others = [each for each in ensemble.servers if each is not server]
        serving = [mode for mode in (await asyncio.to_thread(modes, others)).values() if mode is not None]
        if len(serving) < ensemble.majority:
            raise NodeError("the other ZooKeeper servers have no majority; start their nodes first")
        return Replacement(server.id, new or free[0])

    async def replace(self, replacement: Replacement) -> None:
        """Stop the server, and start a new one on another node, without data; it gets those of the others.

        The file is written once the former process is gone for good: if this controller ends before, nothing has
        happened, and if it ends later, the next one goes on.
        """
        async with self._replacing:
            assert self._ensemble is not None
            number, address = replacement.number, replacement.address
            if all(server.id != number for server in self._ensemble.servers):
                return
            await self._supervisor.forget(name_of(number))
            self._ensemble = self._ensemble.replaced(number, address)
            await asyncio.to_thread(write_atomically, self._file, self._ensemble.encode())
            new = self._ensemble.servers[-1].id
            log.info("%s is replaced by %s at %s", name_of(number), name_of(new), address)
            self._manage(new)
            await self.conform()

    async def status(self) -> list[dict[str, Any]]:
        """Return each server's id, actor, address and mode; empty if Muster runs no ensemble."""
        if self._ensemble is None:
            return []
        servers = self._ensemble.servers
        found = await asyncio.to_thread(modes, servers)
        return [
            {"server": each.id, "actor": name_of(each.id), "address": each.hosts, "mode": found[each.id]}
            for each in servers
        ]


def _node_at(address: str) -> str:
    """Return the live node with that address. Raises NodeAway."""
    try:
        return _addresses()[address]
    except KeyError:
        raise NodeAway(f"no node with address {address} is alive") from None


def _addresses() -> dict[str, str]:
    """Return the id of each live node by its address."""
    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    return {node["NodeManagerAddress"]: node["NodeID"] for node in nodes if node["Alive"]}
