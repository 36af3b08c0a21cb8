"""CreateAcls (api key 30), v1-3: SECURITY_DISABLED for each, as from a Kafka broker without an authorizer.

v2 flexible | v3 user resource type
"""

from __future__ import annotations

from muster.gateway.apis.admin import SECURITY_DISABLED
from muster.gateway.listener.registry import Call, Reply, api


@api(30, "CreateAcls")
async def create_acls(call: Call) -> Reply | None:
    return call.reply({"throttle_time": 0, "results": [SECURITY_DISABLED for _ in call.entity().creations]})
