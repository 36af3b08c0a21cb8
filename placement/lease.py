"""How long a lease of heartbeats lasts; see :mod:`muster.actors.group.lease`."""

from __future__ import annotations

LEASE_MS = 1000
"""How long a gateway may use a lease after it has sent a ping that the coordinator has sent back."""
REPORT_MS = 100
"""A gateway reports a heartbeat at once, with its response; within this time it reports no second one of a member."""
