"""Moves actors between nodes: away from drained nodes, and a share of them to new nodes.

There is one move at a time; :mod:`muster.placement.moves` decides each from the current state. Only the set of drained
nodes has to be remembered, and it is in ZooKeeper: if a controller dies halfway, its successor continues, since to a
new controller every node may lack its share.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import ray
from ray.exceptions import RayError

from muster.actors.controller.managed import Managed
from muster.actors.controller.one_per_node import PerNode
from muster.actors.controller.state import ActorState, NodeState
from muster.actors.controller.supervisor import CannotMove, Supervisor
from muster.actors.runtime.process import now_ms
from muster.actors.zookeeper.actor import KIND as ZOOKEEPER
from muster.placement import drains
from muster.placement.moves import Move, Roster, home, moves
from muster.placement.rendezvous import choose
from muster.placement.zookeeper.client import ZooKeeperClient, ZooKeeperUnreachable

log = logging.getLogger(__name__)

_PERIOD_S = 1.0
_AFTER_FAILURE_S = 5.0
_MAX_FAILURES = 3
"""After this many failed moves of its share to a node, it is left as it is."""
_KINDS = ("offsets", "transactions", "log", "reconciler", "console", "gateway")
"""Kinds of actors in the order in which they are moved; gateways last, since their clients have to reconnect."""


class NodeError(ValueError):
    """The node cannot be drained. The message is for the operator."""


class NodeMoves:
    """For the controller's event loop; blocking calls run in threads."""

    def __init__(
        self,
        supervisor: Supervisor,
        zk: ZooKeeperClient,
        per_node: Collection[PerNode],
        *,
        settle_ms: int,
        move_controller: Callable[[str], Awaitable[None]],
    ) -> None:
        """``per_node``: kinds of actors that each node has one of, in the order in which a drained node loses them.

        ``move_controller`` replaces this process by one on the given node.
        """
        self._supervisor = supervisor
        self._zk = zk
        self._per_node = per_node
        self._move_controller = move_controller
        self._own_node = ray.get_runtime_context().get_node_id()
        self._roster = Roster(settle_ms)
        self._drained: frozenset[str] = frozenset()
        self._alive: frozenset[str] = frozenset()
        self._begun = False
        self._failures: Counter[str] = Counter()
        self._made_on: dict[str, str] = {}
        self._making = threading.Lock()
        self._wake = asyncio.Event()

    def load(self) -> None:
        """Read which nodes are drained, and which are alive. Blocks. Raises ZooKeeperUnreachable or RayError."""
        self._drained = drains.drained(self._zk)
        self._alive = frozenset(node["NodeID"] for node in _nodes() if node["Alive"])

    def home_for(self, actor: str, moved_to: str | None) -> str:
        """Return the node for a new actor: ``moved_to`` if that is usable. Blocks. Raises RayError."""
        usable = self._usable(frozenset(node["NodeID"] for node in _nodes() if node["Alive"]))
        with self._making:
            places = ((name, self._place_of(managed)) for name, managed in list(self._supervisor.actors.items()))
            others = {name: place for name, place in places if place is not None}
            found = moved_to if moved_to in usable else home(actor, self._settled_or_all(usable), others)
            assert found is not None
            self._made_on[actor] = found
            return found

    def _place_of(self, managed: Managed) -> str | None:
        """Return the node that an actor runs on, or is being created on."""
        if managed.started is not None and (managed.is_alive or managed.name not in self._made_on):
            return managed.started.node_id
        return self._made_on.get(managed.name)

    def _settled_or_all(self, nodes: frozenset[str]) -> frozenset[str]:
        return self._roster.settled(now_ms()) & nodes or nodes

    def _usable(self, nodes: frozenset[str]) -> frozenset[str]:
        """Return the nodes that are not drained; if all are, all of them, since actors have to run somewhere."""
        return nodes - self._drained or nodes

    async def run(self) -> None:
        """Run for as long as the controller lives."""
        while True:
            pause_s = _PERIOD_S
            try:
                if await self.step():
                    continue
            except CannotMove as error:
                log.warning("%s", error)
                pause_s = _AFTER_FAILURE_S
            except (RayError, ZooKeeperUnreachable) as error:
                log.warning("nodes are not looked after now: %s", error)
                pause_s = _AFTER_FAILURE_S
            except Exception:
                log.exception("nodes are not looked after now")
                pause_s = _AFTER_FAILURE_S
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()

    async def step(self) -> bool:
        """Update which nodes are alive, then do at most one thing that is due. Returns whether there was one."""
        await self._look()
        settled = self._roster.settled(now_ms())
        for kind in self._per_node:
            await kind.follow(self._alive, settled - self._drained)
        if self._own_node in self._drained and (others := self._usable(self._alive) - self._drained):
            log.info("this node is drained: the controller moves")
            await self._move_controller(choose("controller", sorted(others)))
        homes = self._homes()
        incomplete = self._roster.incomplete(now_ms())
        empty = incomplete - set(homes.values())
        targets = settled - frozenset(node for node in empty if not self._can_run_actors(node))
        move = next(moves(homes, targets, incomplete & targets, self._drained), None)
        if move is None:
            if self._all_serve():
                self._roster.have_their_share(incomplete & targets - self._drained)
            return await self._strip_drained(homes)
        if move.source not in self._drained and not self._all_serve():
            return False
        await self._carry_out(move)
        return True

    async def _look(self) -> None:
        """Update which nodes are alive, and remove the drain marks of nodes that are dead."""
        nodes = await asyncio.to_thread(_nodes)
        self._alive = frozenset(node["NodeID"] for node in nodes if node["Alive"])
        if not self._begun:
            self._begun = True
            self._roster.begin(self._alive, now_ms())
        self._roster.see(self._alive, now_ms())
        for gone in self._drained - self._alive:
            await asyncio.to_thread(drains.undrain, self._zk, gone)
            self._drained -= {gone}

    def _can_run_actors(self, node_id: str) -> bool:
        """Whether an actor of each per-node kind serves there: a node that cannot run Muster gets no others."""
        return all(kind.serves_on(node_id) for kind in self._per_node)

    def _moved(self) -> list[Managed]:
        """Return the actors that can be moved, in the order of ``_KINDS``."""
        fixed = {kind.kind for kind in self._per_node}
        kinds = [kind for kind in _KINDS if kind not in fixed]
        actors = self._supervisor.actors
        return [actors[name] for kind in kinds for name in sorted(actors) if name.partition("-")[0] == kind]

    def _homes(self) -> Mapping[str, str]:
        return {m.name: m.started.node_id for m in self._moved() if m.is_alive and m.started}

    def _all_serve(self) -> bool:
        return all(managed.state in (ActorState.ALIVE, ActorState.FAILED) for managed in self._moved())

    async def _carry_out(self, move: Move) -> None:
        why = "which is drained" if move.source in self._drained else "as a part of its share"
        log.info("%s moves to node %s from %s, %s", move.actor, move.target, move.source, why)
        try:
            await self._supervisor.move(move.actor, move.target)
        except CannotMove:
            self._failures[move.target] += 1
            if self._failures[move.target] >= _MAX_FAILURES:
                log.error("node %s gets no share of the actors: they do not start there", move.target)
                self._roster.have_their_share([move.target])
            if move.source in self._alive - self._drained:
                await self._supervisor.move(move.actor, move.source)
            raise

    async def _strip_drained(self, homes: Mapping[str, str]) -> bool:
        """End the per-node actors of a drained node once no other actor is on it. Returns whether there was one."""
        for node_id in sorted(self._drained - set(homes.values())):
            for kind in self._per_node:
                if await kind.remove_from(node_id):
                    return True
        return False

    # -- operators -------------------------------------------------------------------------------------

    async def drain(self, node_id: str) -> None:
        """Have everything moved off the node, and nothing placed on it, until :meth:`undrain`. Raises NodeError.

        Returns once the request is durable; ``on`` shows what is still on the node.
        """
        self._alive = frozenset(node["NodeID"] for node in await asyncio.to_thread(_nodes) if node["Alive"])
        if node_id not in self._alive:
            raise NodeError(f"node {node_id} is not alive; nothing of Muster is on it")
        if not self._alive - self._drained - {node_id}:
            raise NodeError(
                f"node {node_id} is the last one that is not drained; add a node first, or undo another drain"
            )
        await asyncio.to_thread(drains.drain, self._zk, node_id, now_ms())
        self._drained |= {node_id}
        log.info("node %s is drained from now on", node_id)
        self._wake.set()

    async def undrain(self, node_id: str) -> None:
        """Let the node have actors again; it gets the share of a new node."""
        await asyncio.to_thread(drains.undrain, self._zk, node_id)
        self._drained -= {node_id}
        self._roster.forget_share(node_id)
        log.info("node %s is drained no more", node_id)
        self._wake.set()

    def on(self, node_id: str) -> list[str]:
        """Names of Muster's actors on the node, the controller first."""
        found = ["controller"] if node_id == self._own_node else []
        for name, managed in sorted(self._supervisor.actors.items()):
            process = managed.process[1] if managed.process else None
            homes = {managed.started.node_id if managed.started else process}
            if managed.active_standby is not None:
                homes.add(managed.active_standby.standby.node_id)
            if node_id in homes and managed.state is not ActorState.DEAD:
                found.append(name)
        return found

    def state(self, node_id: str) -> NodeState:
        if node_id not in self._alive:
            return NodeState.DEAD
        if node_id not in self._drained:
            return NodeState.ALIVE
        moved = [name for name in self.on(node_id) if not name.startswith(f"{ZOOKEEPER}-")]
        return NodeState.DRAINING if moved else NodeState.DRAINED


def _nodes() -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return nodes
