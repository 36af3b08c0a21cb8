"""The requests that a gateway sends to the controller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from muster.actors.config.altering import Alteration
from muster.actors.controller.admin import AclOutcome, EntityOutcome, NewTopic, TopicOutcome
from muster.placement.security.acls import Acl, AclFilter
from muster.placement.security.entities import EntityAlteration
from muster.placement.view import OFFSETS


class Controller(Protocol):
    """The requests that a gateway sends to the controller. Each raises ControllerUnavailable without a timely response.

    A change is in the view with the returned order, or in a later one.
    """

    async def create_topics(self, topics: Sequence[NewTopic], validate_only: bool) -> list[TopicOutcome]: ...
    async def delete_topics(self, names: Sequence[str]) -> list[TopicOutcome]: ...
    async def add_partitions(self, totals: dict[str, int], validate_only: bool) -> list[TopicOutcome]: ...
    async def alter_configs(self, alterations: Sequence[Alteration], validate_only: bool) -> list[TopicOutcome]: ...
    async def alter_entities(self, alterations: Sequence[EntityAlteration]) -> list[EntityOutcome]: ...
    async def create_acls(self, acls: Sequence[Acl]) -> list[AclOutcome]: ...
    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[list[AclOutcome]]: ...
    async def until_followed(self, timeout_s: float) -> bool: ...
    async def producer_ids(self) -> range: ...
    async def activate(self, partition: int, kind: str = OFFSETS) -> None: ...


class ControllerUnavailable(ConnectionError):
    """The controller is down or restarting; the request can be retried."""
