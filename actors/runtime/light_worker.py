"""Keeps Ray from importing pyarrow into Muster's processes."""

from __future__ import annotations

import sys
from types import ModuleType

_ARROW_SERIALIZATION = "ray._private.arrow_serialization"


def is_worker() -> bool:
    """Whether this process is a worker of Ray."""
    import ray

    return bool(ray._private.worker.global_worker.mode == ray.WORKER_MODE)


def without_arrow_serialization() -> None:
    """Have Ray not register its serializers of Arrow data in this process.

    Wherever pyarrow is installed, every worker and driver imports it, and numpy with it, to register them. That costs
    0.2 s of processor time and 20 MB. Ray creates its serialization context for the arguments of an actor's
    constructor, so importing the actor's module is the time to prevent it there. Muster's actors pass no Arrow data.
    """
    if _ARROW_SERIALIZATION in sys.modules:
        return
    nothing = ModuleType(_ARROW_SERIALIZATION)
    nothing.__dict__["_register_custom_datasets_serializers"] = lambda context: None
    sys.modules[_ARROW_SERIALIZATION] = nothing
