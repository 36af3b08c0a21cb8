"""DescribeAcls (api key 29), v1-3: the ACLs that match a filter, by resource pattern.

v2 flexible | v3 user resource type
Without an authorizer SECURITY_DISABLED, which clients that mirror or manage ACLs (MirrorMaker 2, Terraform) take to
mean that there are none to manage.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import DESCRIBE_CLUSTER, the_cluster
from muster.gateway.apis.security.acls import BadAcl, entry_fields, filter_of, pattern_fields
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.security.authorization.authorizer import Authorizer
from muster.placement.security.acls import AclFilter


@api(
    29,
    "DescribeAcls",
    guard=Guard(Need((DESCRIBE_CLUSTER,), the_cluster)),
    error_body=lambda call, error: _failed(error, call.reason),
)
async def describe_acls(call: Call) -> Reply | None:
    request, authorizer = call.entity(), call.gateway.authorizer
    if authorizer is None:
        return call.reply(_failed(ErrorCode.security_disabled, "No Authorizer is configured on the broker"))
    try:
        wanted = filter_of(request)
    except BadAcl as error:
        return call.reply(_failed(ErrorCode.invalid_request, str(error)))
    return call.reply({**_failed(ErrorCode.none, ""), "resources": _resources(authorizer, wanted)})


def _resources(authorizer: Authorizer, wanted: AclFilter) -> list[dict[str, Any]]:
    """One element for each pattern: the Java client overwrites one by a later one with the same pattern."""
    found = sorted(filter(wanted.matches, authorizer.acls))
    return [
        {**pattern_fields(pattern), "acls": [entry_fields(acl) for acl in acls]}
        for pattern, acls in groupby(found, key=lambda acl: acl.pattern)
    ]


def _failed(error: ErrorCode, message: str) -> dict[str, Any]:
    return {"throttle_time": 0, "error_code": error, "error_message": message, "resources": []}
