"""DeleteAcls (api key 31), v1-3: SECURITY_DISABLED for each filter, as from a Kafka broker without an authorizer.

v2 flexible | v3 user resource type
"""

from __future__ import annotations

from muster.gateway.apis.admin import SECURITY_DISABLED
from muster.gateway.listener.registry import Call, Reply, api


@api(31, "DeleteAcls")
async def delete_acls(call: Call) -> Reply | None:
    refused = {**SECURITY_DISABLED, "matching_acls": []}
    return call.reply({"throttle_time": 0, "filter_results": [refused for _ in call.entity().filters]})
