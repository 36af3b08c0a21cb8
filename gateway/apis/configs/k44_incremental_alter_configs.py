"""IncrementalAlterConfigs (api key 44), v0-1: some configs of topics, brokers and groups (KIP-339).

v1 flexible. Operations are SET, DELETE, and for lists APPEND and SUBTRACT.
"""

from __future__ import annotations

from typing import Any

from muster.actors.config.altering import Alteration, Change, Operation
from muster.gateway.apis.configs.altering import GUARD, alter, error_body
from muster.gateway.listener.api import Call, Reply, api


@api(44, "IncrementalAlterConfigs", guard=GUARD, error_body=error_body, is_change=True)
async def incremental_alter_configs(call: Call) -> Reply | None:
    return await alter(call, [_alteration(resource) for resource in call.entity().resources])


def _alteration(resource: Any) -> Alteration | None:
    if any(config.config_operation not in set(Operation) for config in resource.configs):
        return None
    changes = (Change(each.name, Operation(each.config_operation), each.value) for each in resource.configs)
    return Alteration(resource.resource_type, resource.resource_name, tuple(changes))
