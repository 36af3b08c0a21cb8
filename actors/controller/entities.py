"""How the controller changes configs of users, clients and addresses: in ZooKeeper, then published to all actors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from muster.actors.controller.admin import EntityOutcome
from muster.actors.controller.changes import NOT_BEGUN, UNKNOWN, Changes
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.security.entities import Entity, EntityAlteration, UnstorableName
from muster.placement.security.entity_registry import EntityRegistry
from muster.placement.zookeeper.client import ZooKeeperUnreachable


class EntitiesAdmin:
    """``entities`` is what ZooKeeper had when it was last read: at :meth:`load` and after each change.

    While ZooKeeper is unavailable, changes fail with REQUEST_TIMED_OUT in bounded time, as those of topics do.
    """

    def __init__(self, registry: EntityRegistry, changed: Callable[[], None], *, with_logins: bool) -> None:
        """Call ``changed`` after every change. ``with_logins``: whether any listener needs logins."""
        self._with_logins = with_logins
        self.entities: Mapping[Entity, Mapping[str, str]] = {}
        self.login_secret = b""
        self._registry = registry
        self._changes = Changes("users and quotas", self._read, changed)

    def load(self) -> None:
        """Read all of them. Blocks. Raises ZooKeeperUnreachable."""
        self.entities = self._registry.load()
        if self._with_logins and not self.login_secret:
            self.login_secret = self._registry.login_secret()

    async def alter(self, alterations: Sequence[EntityAlteration]) -> list[EntityOutcome]:
        """Carry out the alterations one by one, each as a whole, then publish. Outcomes are in order."""
        async with self._changes.turn() as has_turn:
            if not has_turn:
                return [_timed_out(each.entity, self._changes.busy) for each in alterations]
            outcomes: list[EntityOutcome] = []
            try:
                outcomes = await self._carry_out_all(alterations)
            finally:  # those that were made must be visible
                await self._changes.reload(is_away=any(outcome.message == UNKNOWN for outcome in outcomes))
            return outcomes

    async def _carry_out_all(self, alterations: Sequence[EntityAlteration]) -> list[EntityOutcome]:
        outcomes: list[EntityOutcome] = []
        for each in alterations:
            try:
                outcomes.append(await self._changes.in_thread(partial(alter_entity, self._registry, each)))
            except ZooKeeperUnreachable:
                rest = [_timed_out(other.entity, NOT_BEGUN) for other in alterations[len(outcomes) + 1 :]]
                return [*outcomes, _timed_out(each.entity, UNKNOWN), *rest]
        return outcomes

    async def _read(self) -> None:
        await self._changes.in_thread(self.load)


def alter_entity(registry: EntityRegistry, alteration: EntityAlteration) -> EntityOutcome:
    """Carry out the alteration in ZooKeeper. Blocks. Raises ZooKeeperUnreachable."""
    try:
        registry.alter(alteration)
    except UnstorableName as error:
        return EntityOutcome(alteration.entity, int(ErrorCode.invalid_request), str(error))
    return EntityOutcome(alteration.entity, 0)


def _timed_out(entity: Entity, why: str) -> EntityOutcome:
    return EntityOutcome(entity, int(ErrorCode.request_timed_out), why)
