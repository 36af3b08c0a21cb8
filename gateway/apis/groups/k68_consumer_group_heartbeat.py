"""ConsumerGroupHeartbeat (api key 68), v0-1 (KIP-848): forwarded unchanged.

v1 regular expressions; clients make their member ids (KIP-1082)
"""

from __future__ import annotations

from muster.gateway.apis.groups.forwarding import Whole, error_body
from muster.gateway.listener.registry import api

_WHOLE = Whole()
consumer_group_heartbeat = api(
    68, "ConsumerGroupHeartbeat", error_body=error_body, is_evidence=True, forward=_WHOLE.forward
)(_WHOLE.serve)
