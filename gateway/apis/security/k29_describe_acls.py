"""DescribeAcls (api key 29), v1-3: SECURITY_DISABLED, as from a Kafka broker without an authorizer.

v2 flexible | v3 user resource type
Clients that mirror or manage ACLs (MirrorMaker 2, Terraform) take it as "there are none to look after".
"""

from __future__ import annotations

from muster.actors.wire.codec import ErrorCode
from muster.gateway.listener.registry import Call, Reply, api


@api(29, "DescribeAcls")
async def describe_acls(call: Call) -> Reply | None:
    call.entity()
    return call.reply(
        {
            "throttle_time": 0,
            "error_code": ErrorCode.security_disabled,
            "error_message": "No Authorizer is configured on the broker",
            "resources": [],
        }
    )
