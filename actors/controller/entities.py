"""How the controller changes configs of users, clients and addresses: in ZooKeeper, then published to all actors."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from muster.actors.controller.admin import EntityOutcome
from muster.actors.wire.codec import ErrorCode
from muster.placement.security.entities import Entity, EntityAlteration, UnstorableName
from muster.placement.security.entity_registry import EntityRegistry
from muster.placement.zookeeper.client import ZooKeeperUnreachable

T = TypeVar("T")

_PATIENCE_S = 20.0
"""How long a change waits for earlier ones; after that it is not begun. Gateways wait 30 s for its response."""
_RELOAD_S = 0.5
_UNKNOWN = "ZooKeeper is unavailable; whether this was done is not known."
_NOT_BEGUN = "ZooKeeper is unavailable; this was not begun."
_BUSY = "Other changes of users take too long; this was not begun."


class EntitiesAdmin:
    """``entities`` is what ZooKeeper had when it was last read: at :meth:`load` and after each change.

    While ZooKeeper is unavailable, changes fail with REQUEST_TIMED_OUT in bounded time, as those of topics do.
    """

    def __init__(self, registry: EntityRegistry, changed: Callable[[], None], *, with_logins: bool) -> None:
        """``changed`` is called when there is something new. ``with_logins``: whether any listener needs them."""
        self._with_logins = with_logins
        self.entities: Mapping[Entity, Mapping[str, str]] = {}
        self.login_secret = b""
        self._registry = registry
        self._changed = changed
        self._one_change = asyncio.Lock()
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="entities")
        self._reloading: asyncio.Task[None] | None = None

    def load(self) -> None:
        """Read all of them. Blocks. ZooKeeperUnreachable."""
        self.entities = self._registry.load()
        if self._with_logins and not self.login_secret:
            self.login_secret = self._registry.login_secret()

    async def alter(self, alterations: Sequence[EntityAlteration]) -> list[EntityOutcome]:
        """Carry out the alterations one by one, each as a whole, then publish. Outcomes are in order."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._one_change.acquire()
        except TimeoutError:
            return [_timed_out(each.entity, _BUSY) for each in alterations]
        try:
            outcomes: list[EntityOutcome] = []
            try:
                outcomes = await self._carry_out_all(alterations)
            finally:  # those that were made must be visible
                await self._reload(is_away=any(outcome.message == _UNKNOWN for outcome in outcomes))
            return outcomes
        finally:
            self._one_change.release()

    async def _carry_out_all(self, alterations: Sequence[EntityAlteration]) -> list[EntityOutcome]:
        outcomes: list[EntityOutcome] = []
        for each in alterations:
            try:
                outcomes.append(await self._in_thread(partial(alter_entity, self._registry, each)))
            except ZooKeeperUnreachable:
                rest = [_timed_out(other.entity, _NOT_BEGUN) for other in alterations[len(outcomes) + 1 :]]
                return [*outcomes, _timed_out(each.entity, _UNKNOWN), *rest]
        return outcomes

    async def _reload(self, *, is_away: bool) -> None:
        """Publish what ZooKeeper has; if ZooKeeper is unavailable, as soon as it is available again."""
        if not is_away:
            try:
                await self._in_thread(self.load)
            except ZooKeeperUnreachable:
                is_away = True
            else:
                self._changed()
        if is_away and (self._reloading is None or self._reloading.done()):
            self._reloading = asyncio.get_running_loop().create_task(self._reload_later())

    async def _reload_later(self) -> None:
        while True:
            await asyncio.sleep(_RELOAD_S)
            async with self._one_change:
                with contextlib.suppress(ZooKeeperUnreachable):
                    await self._in_thread(self.load)
                    self._changed()
                    return

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def alter_entity(registry: EntityRegistry, alteration: EntityAlteration) -> EntityOutcome:
    """Carry out the alteration in ZooKeeper. Blocks. ZooKeeperUnreachable."""
    try:
        registry.alter(alteration)
    except UnstorableName as error:
        return EntityOutcome(alteration.entity, int(ErrorCode.invalid_request), str(error))
    return EntityOutcome(alteration.entity, 0)


def _timed_out(entity: Entity, why: str) -> EntityOutcome:
    return EntityOutcome(entity, int(ErrorCode.request_timed_out), why)
