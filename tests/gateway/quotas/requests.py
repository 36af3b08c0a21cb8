"""Sets quotas of a served gateway, as the controller would, and reads throttle times."""

from __future__ import annotations

from muster.placement.security.entities import Entity, EntityAlteration
from tests.gateway.serving import Serving

ANONYMOUS = Entity.of_user("ANONYMOUS")


def limit(served: Serving, entity: Entity, **quotas: float) -> None:
    """Set quotas, which the gateway knows when this returns; 0 removes one."""
    wanted = {key: str(value) for key, value in quotas.items() if value}
    removed = frozenset(key for key, value in quotas.items() if not value)

    async def alter() -> None:
        outcomes = await served.controller.alter_entities([EntityAlteration(entity=entity, set=wanted, remove=removed)])
        assert [outcome.error for outcome in outcomes] == [0]

    served.run(alter())
