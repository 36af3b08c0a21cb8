"""SyncGroup (api key 14), v0-5: forwarded as it came; answered once the leader's assignment is durable."""

from muster.gateway.apis.groups.forwarding import forward_whole
from muster.gateway.listener.registry import api

sync_group = api(14, "SyncGroup")(forward_whole)
