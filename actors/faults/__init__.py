"""Fault injection: faults, plans of faults, and what carries them out. See docs/faults.md."""

from muster.actors.faults.errors import FaultError, FaultsDisabled, InvalidFault, UnknownTarget, Unreachable
from muster.actors.faults.model import Fault
from muster.actors.faults.plan import Plan

__all__ = [
    "Fault",
    "FaultError",
    "FaultsDisabled",
    "InvalidFault",
    "Plan",
    "UnknownTarget",
    "Unreachable",
]
