"""AlterConfigs (api key 33), v0-2: all configs of topics, brokers and groups at once.

v2 flexible. Configs that are not named are no longer set; tools use IncrementalAlterConfigs (44).
"""

from __future__ import annotations

from muster.actors.config.altering import Alteration, Change, Operation
from muster.gateway.apis.configs.altering import GUARD, alter, error_body
from muster.gateway.listener.api import Call, Reply, api


@api(33, "AlterConfigs", guard=GUARD, error_body=error_body, is_change=True)
async def alter_configs(call: Call) -> Reply | None:
    return await alter(
        call,
        [
            Alteration(
                resource.resource_type,
                resource.resource_name,
                tuple(Change(config.name, Operation.SET, config.value) for config in resource.configs),
                replace=True,
            )
            for resource in call.entity().resources
        ],
    )
