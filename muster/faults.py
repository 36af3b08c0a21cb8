"""What a fault and a plan of faults are. See docs/faults.md; what carries them out is ``pytest_muster.FaultClient``."""

from muster.actors.faults import Fault, FaultError, InvalidFault, Plan

__all__ = ["Fault", "FaultError", "InvalidFault", "Plan"]
