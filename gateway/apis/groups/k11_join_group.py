"""JoinGroup (api key 11), v0-9: forwarded as it came; the group's actor answers when the join phase completes."""

from muster.gateway.apis.groups.forwarding import forward_whole
from muster.gateway.listener.registry import api

join_group = api(11, "JoinGroup")(forward_whole)
