"""Faults and plans of faults. See docs/faults.md; ``pytest_muster.FaultClient`` carries them out."""

from muster.actors.faults import Fault, FaultError, InvalidFault, Plan

__all__ = ["Fault", "FaultError", "InvalidFault", "Plan"]
