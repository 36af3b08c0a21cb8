"""The requests that a gateway sends to the controller, and the producer ids that it gets ahead."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from muster.actors.config.altering import Alteration
from muster.actors.controller.admin import AclOutcome, EntityOutcome, NewTopic, TopicOutcome
from muster.placement.security.acls import Acl, AclFilter
from muster.placement.security.entities import EntityAlteration
from muster.placement.view import OFFSETS

_FEW = 100
"""Producer ids that are left when the next block is requested."""


class Controller(Protocol):
    """The requests that a gateway sends to the controller. Each raises ControllerUnavailable without a timely response.

    A change is in the view with the returned order, or in a later one.
    """

    async def create_topics(self, topics: Sequence[NewTopic], validate_only: bool) -> list[TopicOutcome]: ...
    async def delete_topics(self, names: Sequence[str]) -> list[TopicOutcome]: ...
    async def add_partitions(self, totals: dict[str, int], validate_only: bool) -> list[TopicOutcome]: ...
    async def set_replication_factors(self, factors: dict[str, int]) -> list[TopicOutcome]: ...
    async def alter_configs(self, alterations: Sequence[Alteration], validate_only: bool) -> list[TopicOutcome]: ...
    async def alter_entities(self, alterations: Sequence[EntityAlteration]) -> list[EntityOutcome]: ...
    async def create_acls(self, acls: Sequence[Acl]) -> list[AclOutcome]: ...
    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[list[AclOutcome]]: ...
    async def until_followed(self, timeout_s: float) -> bool: ...
    async def producer_ids(self) -> range: ...
    async def status(self) -> dict[str, Any]: ...
    async def activate(self, partition: int, kind: str = OFFSETS) -> None: ...
    async def drain(self, node_id: str) -> None:
        """Have everything moved off the node. Raises NodeRefused, too."""

    async def undrain(self, node_id: str) -> None:
        """Let the node have actors again."""


class ControllerUnavailable(ConnectionError):
    """The controller is down or restarting; the request can be retried."""


class NodeRefused(ValueError):
    """The node cannot be drained. The message is for the operator."""


class ProducerIds:
    """The producer ids that one gateway assigns: one block of the controller's at a time, the next requested early.

    While ids are left, new idempotent producers need neither the controller nor ZooKeeper.
    """

    def __init__(self, next_block: Callable[[], Awaitable[range]]) -> None:
        """``next_block`` returns unused ids. If it raises and no id is left, :meth:`next` raises the same."""
        self._next_block = next_block
        self._ids: deque[int] = deque()
        self._filling: asyncio.Task[None] | None = None

    def prepare(self) -> None:
        """Request a block before it is needed; does not wait."""
        self._fill()

    def stop(self) -> None:
        """Send no more requests; a block in flight is lost, as blocks may be."""
        if self._filling is not None:
            self._filling.cancel()

    async def next(self) -> int:
        """Return an id that no other producer of this cluster has or had."""
        while True:
            filling = self._fill() if len(self._ids) <= _FEW else None
            if self._ids:
                return self._ids.popleft()
            assert filling is not None
            await asyncio.shield(filling)

    def _fill(self) -> asyncio.Task[None]:
        if self._filling is None:
            self._filling = asyncio.get_running_loop().create_task(self._fetch_block())
            self._filling.add_done_callback(self._filled)
        return self._filling

    async def _fetch_block(self) -> None:
        self._ids.extend(await self._next_block())

    def _filled(self, filling: asyncio.Task[None]) -> None:
        self._filling = None
        if not filling.cancelled():
            filling.exception()  # the callers that wait get it; asyncio need not report it
