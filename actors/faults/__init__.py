"""Fault injection: what a fault is, and a client of the gateways' fault API. See docs/faults.md."""

from actors.faults.client import FaultClient
from actors.faults.errors import FaultError, FaultsDisabled, InvalidFault, UnknownTarget, Unreachable
from actors.faults.model import Fault
from actors.faults.plan import Plan

__all__ = [
    "Fault",
    "FaultClient",
    "FaultError",
    "FaultsDisabled",
    "InvalidFault",
    "Plan",
    "UnknownTarget",
    "Unreachable",
]
