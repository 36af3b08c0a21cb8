"""Heartbeat (api key 12), v0-4: forwarded as it came; NONE while the group's actor is down (as Kafka while loading)."""

from muster.gateway.apis.groups.forwarding import forward_whole
from muster.gateway.listener.registry import api

heartbeat = api(12, "Heartbeat")(forward_whole)
