"""DeleteAcls (api key 31), v1-3: the ACLs that match each filter; none is no error.

v2 flexible | v3 user resource type
An ACL that several filters match is listed under the first, as by a Kafka with ZooKeeper. Without an authorizer
SECURITY_DISABLED for each filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muster.actors.controller.admin import AclOutcome
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.admin import SECURITY_DISABLED
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import ALTER_CLUSTER, the_cluster
from muster.gateway.apis.security.acls import (
    LATE,
    BadAcl,
    entry_fields,
    error_fields,
    filter_of,
    pattern_fields,
    until_in_force,
)
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.listener.controller import ControllerUnavailable
from muster.gateway.listener.gateway import Gateway
from muster.placement.security.acls import AclFilter


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    return {"filter_results": [_failed(error, call.reason) for _ in call.entity().filters]}


@api(31, "DeleteAcls", guard=Guard(Need((ALTER_CLUSTER,), the_cluster)), error_body=_error_body, is_change=True)
async def delete_acls(call: Call) -> Reply | None:
    filters = call.entity().filters
    if call.gateway.authorizer is None:
        results = [{**SECURITY_DISABLED, "matching_acls": []} for _ in filters]
        return call.reply({"throttle_time": 0, "filter_results": results})
    checked = [_checked(each) for each in filters]
    good = [each for each in checked if isinstance(each, AclFilter)]
    try:
        done = iter(await _carried_out(call.gateway, good))
    except ControllerUnavailable:
        late = _failed(ErrorCode.request_timed_out, LATE)
        results = [late if isinstance(each, AclFilter) else _invalid(each) for each in checked]
    else:
        results = [_matched(next(done)) if isinstance(each, AclFilter) else _invalid(each) for each in checked]
    return call.reply({"throttle_time": 0, "filter_results": results})


def _checked(wanted: Any) -> AclFilter | BadAcl:
    try:
        return filter_of(wanted)
    except BadAcl as error:
        return error


def _matched(outcomes: Sequence[AclOutcome]) -> dict[str, Any]:
    matching = [
        {**error_fields(each), **pattern_fields(each.acl.pattern), **entry_fields(each.acl)} for each in outcomes
    ]
    return {"error_code": ErrorCode.none, "error_message": None, "matching_acls": matching}


def _invalid(error: BadAcl) -> dict[str, Any]:
    return _failed(ErrorCode.invalid_request, str(error))


def _failed(error: ErrorCode, message: str) -> dict[str, Any]:
    return {"error_code": error, "error_message": message, "matching_acls": []}


async def _carried_out(gateway: Gateway, filters: Sequence[AclFilter]) -> list[list[AclOutcome]]:
    """Delete the ACLs, and wait until that is in force. Raises ControllerUnavailable."""
    if not filters:
        return []
    outcomes = await gateway.controller.delete_acls(filters)
    deleted = {outcome.acl for some in outcomes for outcome in some if not outcome.error}
    await until_in_force(gateway, lambda authorizer: not deleted & authorizer.acls)
    return outcomes
