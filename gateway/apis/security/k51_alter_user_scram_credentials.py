"""AlterUserScramCredentials (api key 51), v0 (KIP-554): set and remove SCRAM credentials of users in ZooKeeper.

Any gateway carries it out, where Kafka requires the controller. It is answered once all gateways that serve log clients
in with the change, or after 5 s. Sessions that are open stay open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from muster.actors.controller.admin import EntityOutcome
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.admin import everywhere
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import ALTER_CLUSTER, the_cluster
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.listener.controller import ControllerUnavailable
from muster.gateway.listener.gateway import Gateway
from muster.gateway.security.credentials import Entities
from muster.gateway.security.scram_users import Deletion, Refusal, Upsertion, alteration_of
from muster.placement.security.entities import Entity, EntityAlteration
from muster.placement.view import ClusterView

_SHOWN_S = 5.0
_LATE = "The controller did not answer in time."


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    return {"results": [_result(user, error, call.reason) for user in _users(call.entity())]}


@api(
    51,
    "AlterUserScramCredentials",
    guard=Guard(Need((ALTER_CLUSTER,), the_cluster)),
    error_body=_error_body,
    is_change=True,
)
async def alter_user_scram_credentials(call: Call) -> Reply | None:
    request, gateway = call.entity(), call.gateway
    deletions, upsertions = _by_user(request.deletions), _by_user(request.upsertions)
    wanted = {
        user: _wanted(user, deletions[user], upsertions[user], gateway.view.configs.entities)
        for user in _users(request)
    }
    alterations = [each for each in wanted.values() if isinstance(each, EntityAlteration)]
    outcomes = await carried_out(gateway, alterations)
    results = []
    for user, each in wanted.items():
        if isinstance(each, Refusal):
            results.append(_result(user, each.error, each.message))
        else:
            outcome = outcomes[each.entity]
            results.append(_result(user, ErrorCode(outcome.error), outcome.message))
    return call.reply({"throttle_time": 0, "results": results})


def _users(request: Any) -> list[str]:
    """Each user once."""
    return list(dict.fromkeys(element.name for element in (*request.deletions, *request.upsertions)))


def _by_user(elements: Sequence[Any]) -> defaultdict[str, list[Any]]:
    found = defaultdict(list)
    for element in elements:
        found[element.name].append(element)
    return found


def _wanted(
    user: str, deletions: Sequence[Any], upsertions: Sequence[Any], entities: Entities
) -> EntityAlteration | Refusal:
    return alteration_of(
        user,
        [Deletion(user, each.mechanism) for each in deletions],
        [Upsertion(user, each.mechanism, each.iterations, each.salt, each.salted_password) for each in upsertions],
        entities.get(Entity.of_user(user), {}),
    )


async def carried_out(gateway: Gateway, alterations: Sequence[EntityAlteration]) -> Mapping[Entity, EntityOutcome]:
    """Return the outcome for each entity. Those that are done are in force on all gateways, within bounded time."""
    if not alterations:
        return {}
    try:
        found = await gateway.controller.alter_entities(alterations)
    except ControllerUnavailable:
        return {
            each.entity: EntityOutcome(each.entity, int(ErrorCode.request_timed_out), _LATE) for each in alterations
        }
    outcomes = {outcome.entity: outcome for outcome in found}
    done = [each for each in alterations if not outcomes[each.entity].error]
    await everywhere(gateway, _SHOWN_S)
    await gateway.until_view(lambda view: all(_shows(view, each) for each in done), _SHOWN_S)
    return outcomes


def _shows(view: ClusterView, alteration: EntityAlteration) -> bool:
    config = view.configs.entities.get(alteration.entity, {})
    return alteration.set.items() <= config.items() and not (alteration.remove & config.keys())


def _result(user: str, error: ErrorCode, message: str | None) -> dict[str, Any]:
    return {"user": user, "error_code": error, "error_message": message}
