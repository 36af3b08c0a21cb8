"""Keeps the cluster's actors running: Ray restarts a process, the supervisor makes it serve again and reports that.

While the process of an offsets, transactions or log actor is down, a standby serves its role and hands it over once the
new process is ready (:mod:`muster.actors.serving`). A process that is not dead but unresponsive is considered dead and
ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import ray
from ray.exceptions import ActorDiedError, ActorUnschedulableError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from muster.actors.controller.lifecycle import Lifecycle
from muster.actors.controller.managed import Managed
from muster.actors.controller.standbys import ActiveStandby, NextEpoch, Standby, Standbys
from muster.actors.controller.state import ActorEvent, ActorState
from muster.actors.runtime.errors import first_line
from muster.actors.runtime.liveness.ending import end_process
from muster.actors.runtime.liveness.pings import Unresponsive, gives_sign, while_alive
from muster.actors.runtime.liveness.sockets import SocketPings
from muster.actors.runtime.ray.processes import NotAnActor
from muster.actors.runtime.started import Started
from muster.actors.wire.sockets.holder import KEEP_S

log = logging.getLogger(__name__)

_RETRY_S = 0.1
_FAILED_RETRY_S = 2.0
_AWAY_RETRY_S = 1.0
_LAST_RETRY_S = 5.0
_AT_ONCE = 4
"""How many actors of a large kind start at once: fifty would starve each other, and other actors, of CPU time."""
_STOP_S = 10.0
_END_S = 2.0
_MOVE_S = 60.0
_SOCKET_SHARE = 4
"""Part of the time for a response to a ping, after which it is sent by Ray instead."""
_DOWN = (ActorState.RESTARTING, ActorState.FAILED)


class NodeAway(RuntimeError):
    """The only node that an actor may run on is not alive."""


class CannotMove(RuntimeError):
    """An actor could not be moved; it continues where it was, or where Ray places it."""


def detached(cls: type, name: str, namespace: str, *args: Any, node_id: str | None = None, pinned: bool = False) -> Any:
    """Handle of the detached, named actor, created if it does not exist; on ``node_id`` if that node can run it.

    If it is ``pinned``, it runs on that node or nowhere: when the node is lost, it is dead, and Ray does not move it.

    The actor uses no CPU slot (slots are for work, and these actors mostly wait), always restarts, and serves many
    calls at once.
    """
    strategy = NodeAffinitySchedulingStrategy(node_id, soft=not pinned) if node_id else "DEFAULT"
    # Ray places an actor that requires no resource at all on a random node, whatever its soft affinity.
    memory_bytes = 1 if node_id and not pinned else None
    return (
        ray.remote(cls)
        .options(
            name=name,
            namespace=namespace,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            max_task_retries=0,
            num_cpus=0,
            memory=memory_bytes,
            max_concurrency=1000,
            scheduling_strategy=strategy,
        )
        .remote(*args)
    )


class Supervisor:
    """Makes each new process of an actor serve; learns of its death by ``park(pid)``, which never returns."""

    def __init__(
        self,
        changed: Callable[[], None],
        next_epoch: NextEpoch,
        *,
        lifecycle: Lifecycle,
        liveness_timeout_s: float = 0,
        cover: bool = False,
    ) -> None:
        """Call ``changed`` after every change of an actor's state or server; record it in ``lifecycle``.

        ``liveness_timeout_s`` is how long a ping may take, 0: no pings. ``cover``: whether standbys, managed like
        other actors, take over.
        """
        self.actors: dict[str, Managed] = {}
        self.standbys = Standbys(self._standbys_alive, next_epoch)
        self._changed = changed
        self._next_epoch = next_epoch
        self._lifecycle = lifecycle
        self._liveness_timeout_s = liveness_timeout_s
        self._cover = cover
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._settled = asyncio.Condition()
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._moving = asyncio.Lock()

    def manage(
        self,
        name: str,
        make: Callable[[str | None], Any],
        *,
        many: bool = False,
        is_role: bool = False,
        active_standby: ActiveStandby | None = None,
    ) -> Managed:
        """Begin to keep an actor running. If the name is known, returns the existing one.

        ``is_role``: whether it has a role that standbys can serve. ``active_standby`` serves it already, from an
        earlier controller.
        """
        if name not in self.actors:
            managed = self.actors[name] = Managed(name, make, many, is_role, active_standby=active_standby)
            if active_standby is not None:
                self._lifecycle.see(managed)
                self._begin_to_cover(managed)
            self._tasks[name] = asyncio.get_running_loop().create_task(self._keep(managed))
        return self.actors[name]

    def standby_of(self, managed: Managed) -> Standby | None:
        """Return the standby in the actor's place, if any: by request, or the one of a dead gateway's node."""
        if managed.active_standby is not None:
            return managed.active_standby.standby
        started = managed.started
        if started is None or started.broker is None or managed.state not in _DOWN or managed.leaves:
            return None
        if time.monotonic() > managed.down_since_s + KEEP_S:
            return None
        standby = self.standbys.find(started.node_id)
        return standby if standby is not None and standby.pid == managed.standby_pid else None

    def is_served(self, managed: Managed) -> bool:
        """Whether the actor, or a standby in its place, serves its clients."""
        return managed.is_alive or self.standby_of(managed) is not None

    async def alive(self, managed: Managed, timeout_s: float) -> bool:
        """Wait until the actor serves or fails, or time is up. Returns whether it, or a standby for it, serves."""
        try:
            async with asyncio.timeout(timeout_s), self._settled:
                await self._settled.wait_for(lambda: managed.serves or managed.state is ActorState.FAILED)
        except TimeoutError:
            return False
        return managed.serves

    # -- keeping one running ---------------------------------------------------------------------------

    async def _keep(self, managed: Managed) -> None:
        while True:
            reason, is_sure = "its process has ended", True
            try:
                async with self._turns if managed.many else contextlib.nullcontext():
                    await self._begin(managed)
                assert managed.started is not None
                managed.error = None
                await self._move(managed, ActorEvent.SERVES)
                pid, node_id = managed.started.pid, managed.started.node_id
                await self._while_serving(managed, self._until_gone(managed.handle.park.remote(pid), pid, node_id))
                log.warning("%s is down: pid %d has ended", managed.name, pid)
            except Unresponsive as error:
                log.error("%s is taken for dead: %s", managed.name, error)
                await self._down(managed, str(error))
                await self._end(managed)
            except (ActorDiedError, ActorUnschedulableError) as error:  # killed without restart, or its node is lost
                reason = first_line(error)
                log.warning("%s died and is made anew: %s", managed.name, reason)
                managed.handle = None
            except RayTaskError as error:
                await self._failed(managed, error.cause if error.cause else error)
                with contextlib.suppress(RayError, ValueError):
                    await asyncio.to_thread(ray.kill, managed.handle, no_restart=False)
            except RayActorError as error:
                is_sure = False
                reason, known = first_line(error), managed.state is ActorState.RESTARTING  # Ray repeats it every 2 s
                log.log(logging.DEBUG if known else logging.WARNING, "%s is down: %s", managed.name, reason)
            except Exception as error:  # whatever Ray raises: nothing else would retry
                await self._failed(managed, error)
                managed.handle = None
            await self._down(managed, reason)
            if not is_sure:
                await self._end_if_silent(managed)
            await asyncio.sleep(_RETRY_S)

    async def _begin(self, managed: Managed) -> None:
        self._lifecycle.starting(managed)
        if managed.handle is None:
            managed.handle = await self._made(managed)
        if managed.is_role:
            managed.started = await self._take_over(managed)
        else:
            managed.started = await self._while_alive(managed, _once_up(managed.handle.start))
        managed.starts += 1

    async def _made(self, managed: Managed) -> Any:
        """Create the actor, once its node is alive if there is only one for it."""
        loop = asyncio.get_running_loop()
        while True:
            making = loop.run_in_executor(None, managed.make, managed.node_id)
            try:
                return await asyncio.shield(making)
            except asyncio.CancelledError:  # the actor is there all the same, so that it has to be ended
                with contextlib.suppress(Exception):
                    managed.handle = await making
                raise
            except NodeAway as error:
                if managed.error != str(error):
                    managed.error = str(error)
                    log.warning("%s waits: %s", managed.name, error)
                await asyncio.sleep(_AWAY_RETRY_S)

    async def _take_over(self, managed: Managed) -> Started:
        """Have the actor serve its role; take it over from the standby in its place, if any."""
        found: Started | None = await self._while_alive(managed, _once_up(managed.handle.prepare))
        active_standby = managed.active_standby
        if found is not None and active_standby is not None and found.epoch < active_standby.started.epoch:
            managed.process = found.pid, found.node_id
            raise Unresponsive(f"epoch {active_standby.started.epoch} has replaced its epoch {found.epoch}")
        if found is None:
            epoch = await self._next_epoch(managed.name, managed.name)
            predecessor = await self._cease_to_cover(managed)
            call = managed.handle.take_over.remote(epoch, predecessor.standby.handle if predecessor else None)
            found = await self._while_alive(managed, call)
        if active_standby := await self._cease_to_cover(managed):
            active_standby.release()
        managed.active_standby = None
        return found

    async def _while_alive(self, managed: Managed, call: Awaitable[Any]) -> Any:
        handle = managed.handle

        async def ping() -> None:
            managed.process = await handle.ping.remote()

        return await while_alive(call, ping, self._liveness_timeout_s)

    async def _while_serving(self, managed: Managed, call: Awaitable[Any]) -> Any:
        """Ping it over its internal socket, if any; by Ray where that fails, which alone proves that it hangs."""
        handle, started = managed.handle, managed.started
        assert started is not None
        if started.endpoint is None:
            return await self._while_alive(managed, call)
        managed.process = started.pid, started.node_id
        pings = SocketPings(started.endpoint, ray.get_runtime_context().get_node_id())

        async def ping() -> None:
            if not await pings.answered(self._liveness_timeout_s / _SOCKET_SHARE):
                managed.process = await handle.ping.remote()

        try:
            return await while_alive(call, ping, self._liveness_timeout_s)
        finally:
            pings.close()

    async def _end_if_silent(self, managed: Managed) -> None:
        """End a process to which a call has failed although it is there: with gRPC's keepalive, one that is paused."""
        if managed.process is None or managed.handle is None or not self._liveness_timeout_s:
            return
        pid, node_id = managed.process
        handle = managed.handle

        async def ping() -> None:
            with contextlib.suppress(ActorDiedError, ActorUnschedulableError):  # for good, so it is made anew at once
                await handle.ping.remote()

        ended = self.standbys.until_gone(node_id, pid)
        if not await gives_sign(ended, ping, self._liveness_timeout_s):
            log.error("%s, pid %d, is taken for dead: it gives no sign of life", managed.name, pid)
            await self._end(managed)

    async def _until_gone(self, call: Awaitable[None], pid: int, node_id: str) -> None:
        """Wait for the call's end or error, or the end of the called process, whichever is noticed first."""
        called = asyncio.ensure_future(call)
        gone = asyncio.ensure_future(self.standbys.until_gone(node_id, pid))
        try:
            await asyncio.wait({called, gone}, return_when=asyncio.FIRST_COMPLETED)
            if called.done():
                called.result()
        finally:
            called.cancel()
            gone.cancel()

    async def _end(self, managed: Managed) -> None:
        """End a process that is considered dead. Returns when it has ended, so nothing can rely on it later."""
        if managed.process is None:
            return
        pid, node_id = managed.process
        if not await self._kill(managed.name, pid, node_id):  # that node's standby may itself hang
            await asyncio.to_thread(ray.kill, managed.handle, no_restart=False)  # takes Ray 5 s
        while True:
            try:
                async with asyncio.timeout(_END_S):
                    await managed.handle.end.remote(pid)
                return
            except (ActorDiedError, ActorUnschedulableError):
                managed.handle = None
                return
            except (RayError, TimeoutError):
                await asyncio.sleep(_RETRY_S)

    async def _kill(self, name: str, pid: int, node_id: str) -> bool:
        """Whether the process got SIGKILL, or has ended."""
        try:
            async with asyncio.timeout(_END_S):
                await self.standbys.signal(node_id, pid, signal.SIGKILL)
        except NotAnActor:  # it has ended
            return True
        except Exception as error:  # no standby there, or it cannot be reached
            log.info("%s, pid %d, is not killed by a standby: %s", name, pid, first_line(error))
            return await end_process(node_id, pid)
        return True

    async def _failed(self, managed: Managed, error: BaseException) -> None:
        """Report it, and wait before the next attempt, in a new process: a half-failed start may hold a port."""
        managed.error = first_line(error)
        log.error("%s cannot start: %s", managed.name, managed.error)
        self._note_down(managed)
        await self._move(managed, ActorEvent.FAILS, managed.error)
        await asyncio.sleep(_FAILED_RETRY_S)

    async def _move(self, managed: Managed, event: ActorEvent, reason: str | None = None) -> None:
        is_news = managed.move(event)
        self._lifecycle.see(managed, reason)
        if is_news:
            await self._publish()

    async def _publish(self) -> None:
        self._changed()
        async with self._settled:
            self._settled.notify_all()

    # -- taking over ------------------------------------------------------------------------------------

    def _standbys_alive(self) -> list[Standby]:
        return [
            Standby(managed.name, managed.handle, managed.started.pid, managed.started.node_id)
            for managed in self.actors.values()
            if managed.name.startswith("standby-") and managed.is_alive and managed.started is not None
        ]

    async def _down(self, managed: Managed, reason: str) -> None:
        """Have a standby take over the role of an actor that is down, if it has one; only then does the view change."""
        self._note_down(managed)
        if not managed.is_role or not self._cover:
            await self._move(managed, ActorEvent.IS_LOST, reason)
            return
        managed.move(ActorEvent.IS_LOST)
        self._lifecycle.see(managed, reason)
        if managed.covering is None:
            self._begin_to_cover(managed)

    def _note_down(self, managed: Managed) -> None:
        """Note when an actor that serves is lost, and a gateway's standby, which has its sockets for a while."""
        if not managed.is_alive:
            return
        managed.down_since_s = time.monotonic()
        if managed.started is not None and managed.started.broker is not None:
            standby = self.standbys.find(managed.started.node_id)
            managed.standby_pid = standby.pid if standby else None
            asyncio.get_running_loop().call_later(KEEP_S + _RETRY_S, self._changed)

    def _begin_to_cover(self, managed: Managed) -> None:
        managed.covering = asyncio.get_running_loop().create_task(self._keep_covered(managed))

    async def _cease_to_cover(self, managed: Managed) -> ActiveStandby | None:
        """Stop replacing the actor's standby. One that serves continues; one that is still opening is given up."""
        task, managed.covering = managed.covering, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        return managed.active_standby

    async def _keep_covered(self, managed: Managed) -> None:
        """Keep a standby serving in place of the actor: another one if that is lost, too."""
        published, pause_s = False, _RETRY_S
        while True:
            if managed.active_standby is None:
                managed.active_standby = await self._activate_standby(managed)
                self._lifecycle.see(managed)
                if managed.active_standby is not None or not published:
                    published = True
                    await self._publish()
            if managed.active_standby is None:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LAST_RETRY_S)
                continue
            try:
                standby = managed.active_standby.standby
                await self._until_gone(managed.active_standby.until_over(), standby.pid, standby.node_id)
            except RayError as error:
                log.warning("%s is down: %s", managed.active_standby.standby.name, first_line(error))
            log.warning("%s no longer serves in place of %s", managed.active_standby.standby.name, managed.name)
            managed.active_standby, pause_s = None, _RETRY_S
            self._lifecycle.see(managed, "no standby serves in its place any more")

    async def _activate_standby(self, managed: Managed, predecessor: Any = None) -> ActiveStandby | None:
        """Have a standby take over, on the actor's node if possible."""
        near = managed.node_id or (managed.started.node_id if managed.started else None)
        try:
            active_standby = await self.standbys.take_over(managed.name, near, predecessor)
        except Exception as error:  # ZooKeeper gives no epoch
            log.warning("no standby takes over from %s: %s", managed.name, first_line(error))
            return None
        if active_standby is not None:
            log.info("%s serves in place of %s", active_standby.standby.name, managed.name)
        return active_standby

    # -- moving and stopping ---------------------------------------------------------------------------

    async def move(self, name: str, node_id: str) -> None:
        """Move the actor to that node, one move at a time; returns when it serves there.

        A role is served meanwhile, by the standby of that node if it has one: no group rebalances. Other actors close
        first and are unavailable while a process starts. Raises KeyError if there is no such actor. Raises CannotMove
        if it does not serve there within a minute, e.g. because the node is lost.
        """
        async with self._moving:
            managed = self.actors[name]
            if managed.is_alive and managed.started is not None and managed.started.node_id == node_id:
                return
            await self._cease_to_keep([name])
            self._lifecycle.moves(managed, node_id)
            managed.node_id = node_id
            try:
                await self._vacate(managed)
            finally:
                managed.move(ActorEvent.IS_LOST)  # also if it could not be ended in order
                managed.handle = managed.started = None
                managed.leaves = False
                self._tasks[name] = asyncio.get_running_loop().create_task(self._keep(managed))
            await self._alive_itself(managed)
            if managed.started is None or managed.started.node_id != node_id:
                raise CannotMove(f"{name} does not serve on node {node_id}: {managed.error or 'it does not start'}")
        log.info("%s serves on node %s", name, node_id)

    async def _vacate(self, managed: Managed) -> None:
        """End the actor's process. A standby first takes over its role, if it has one, from what serves it."""
        if managed.is_role and self._cover:
            serving = await self._cease_to_cover(managed)
            predecessor = serving.standby.handle if serving else managed.handle
            managed.active_standby = await self._activate_standby(managed, predecessor) or serving
            managed.move(ActorEvent.IS_LOST)
            self._lifecycle.see(managed)
            await self._publish()
        if managed.handle is not None:
            await self._leave(managed)
            await self._stop(managed)
            await _until_dead(managed.handle)
        await self._down(managed, "it moves")

    async def _alive_itself(self, managed: Managed) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MOVE_S), self._settled:
                await self._settled.wait_for(lambda: managed.is_alive)

    async def forget(self, name: str) -> None:
        """Stop an actor and no longer manage it; its clients leave it first.

        Raises KeyError if there is no such actor.
        """
        await self._leave(self.actors[name])
        await self.stop([name])
        del self.actors[name]
        await self._publish()

    async def stop(self, names: list[str]) -> None:
        """Stop these actors concurrently: each is requested to stop, then its process is ended."""
        await self._cease_to_keep(names)
        for name in names:
            await self._cease_to_cover(self.actors[name])
        await asyncio.gather(*(self._stop(self.actors[name]) for name in names))
        for name in names:
            self._lifecycle.stopped(self.actors[name])

    async def _cease_to_keep(self, names: Sequence[str]) -> None:
        """Return once none of these can be created any more: a later one would be taken for its successor."""
        tasks = [self._tasks.pop(name) for name in names]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _leave(self, managed: Managed) -> None:
        """Have the clients of a gateway leave, while it still serves them: others lead what it has led."""
        if not managed.is_alive or managed.started is None or managed.started.broker is None:
            return
        managed.leaves = True
        await self._publish()
        with contextlib.suppress(TimeoutError, RayError):
            async with asyncio.timeout(_STOP_S):
                await managed.handle.leave.remote()

    async def _stop(self, managed: Managed) -> None:
        if managed.handle is None:
            return
        try:
            async with asyncio.timeout(_STOP_S):
                await managed.handle.stop.remote()
        except (TimeoutError, RayError) as error:
            log.warning("%s did not stop by itself: %r", managed.name, error)
        managed.move(ActorEvent.STOPS)
        await asyncio.to_thread(ray.kill, managed.handle, no_restart=True)


def _once_up(method: Any) -> Awaitable[Any]:
    """Call the method once the process runs; without retries, the call fails up to 2 s later while Ray restarts it."""
    call: Awaitable[Any] = method.options(max_task_retries=-1).remote()
    return call


async def _until_dead(handle: Any) -> None:
    """Wait until Ray knows that a killed actor is dead: until then its name gives the old process, which may answer."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_STOP_S):
            while True:
                try:
                    await handle.ping.remote()
                except (ActorDiedError, ActorUnschedulableError):
                    return
                except RayError:
                    pass
                await asyncio.sleep(_RETRY_S)
