"""LeaveGroup (api key 13), v0-5: forwarded unchanged."""

from muster.gateway.apis.groups.forwarding import Whole, error_body
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import READ_GROUP, group_id
from muster.gateway.listener.api import api

_WHOLE = Whole()
leave_group = api(
    13, "LeaveGroup", guard=Guard(Need((READ_GROUP,), group_id)), error_body=error_body, forward=_WHOLE.forward
)(_WHOLE.serve)
