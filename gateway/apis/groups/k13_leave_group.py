"""LeaveGroup (api key 13), v0-5: forwarded unchanged."""

from muster.gateway.apis.groups.forwarding import error_body, forward_whole
from muster.gateway.listener.registry import api

leave_group = api(13, "LeaveGroup", error_body=error_body)(forward_whole)
