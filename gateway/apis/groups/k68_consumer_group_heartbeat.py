"""ConsumerGroupHeartbeat (api key 68), v0-1 (KIP-848): forwarded unchanged.

v1 regular expressions; clients make their member ids (KIP-1082)
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.gateway.apis.groups.forwarding import Whole, error_body
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import DESCRIBE_TOPIC, READ_GROUP, group_id
from muster.gateway.listener.api import Call, api


def _subscribed(call: Call) -> Iterable[str]:
    return call.entity().subscribed_topic_names or ()


_GUARD = Guard(Need((READ_GROUP,), group_id), Need((DESCRIBE_TOPIC,), _subscribed, "subscribed to"))
_WHOLE = Whole()
consumer_group_heartbeat = api(
    68, "ConsumerGroupHeartbeat", guard=_GUARD, error_body=error_body, is_evidence=True, forward=_WHOLE.forward
)(_WHOLE.serve)
