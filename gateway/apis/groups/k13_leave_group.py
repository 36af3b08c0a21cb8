"""LeaveGroup (api key 13), v0-5: forwarded unchanged."""

from muster.gateway.apis.groups.forwarding import Whole, error_body
from muster.gateway.listener.registry import api

_WHOLE = Whole()
leave_group = api(13, "LeaveGroup", error_body=error_body, forward=_WHOLE.forward)(_WHOLE.serve)
