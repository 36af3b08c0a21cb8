"""CreateAcls (api key 30), v1-3: each independently of the others; one that exists is a success.

v2 flexible | v3 user resource type
Without an authorizer SECURITY_DISABLED for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muster.actors.controller.admin import AclOutcome
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.admin import SECURITY_DISABLED
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import ALTER_CLUSTER, the_cluster
from muster.gateway.apis.security.acls import LATE, BadAcl, acl_of, error_fields, until_in_force
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.listener.controller import ControllerUnavailable
from muster.gateway.listener.gateway import Gateway
from muster.placement.security.acls import Acl


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    failed = {"error_code": error, "error_message": call.reason}
    return {"results": [failed for _ in call.entity().creations]}


@api(30, "CreateAcls", guard=Guard(Need((ALTER_CLUSTER,), the_cluster)), error_body=_error_body, is_change=True)
async def create_acls(call: Call) -> Reply | None:
    creations = call.entity().creations
    if call.gateway.authorizer is None:
        return call.reply({"throttle_time": 0, "results": [SECURITY_DISABLED for _ in creations]})
    checked = [_checked(creation) for creation in creations]
    done = iter(await _carried_out(call.gateway, [acl for acl in checked if isinstance(acl, Acl)]))
    results = [_created(next(done)) if isinstance(acl, Acl) else _invalid(acl) for acl in checked]
    return call.reply({"throttle_time": 0, "results": results})


def _checked(creation: Any) -> Acl | BadAcl:
    try:
        return acl_of(creation)
    except BadAcl as error:
        return error


def _created(outcome: AclOutcome) -> dict[str, Any]:
    return {**error_fields(outcome), "error_message": outcome.message or ""}


def _invalid(error: BadAcl) -> dict[str, Any]:
    return {"error_code": ErrorCode.invalid_request, "error_message": str(error)}


async def _carried_out(gateway: Gateway, acls: Sequence[Acl]) -> list[AclOutcome]:
    if not acls:
        return []
    try:
        outcomes = await gateway.controller.create_acls(acls)
    except ControllerUnavailable:
        return [AclOutcome(acl, int(ErrorCode.request_timed_out), LATE) for acl in acls]
    created = {outcome.acl for outcome in outcomes if not outcome.error}
    await until_in_force(gateway, lambda authorizer: created <= authorizer.acls)
    return outcomes
