"""Ray Serve on topics: deployments that consume, and a policy that scales them by lag (docs/ray.md).

``Consumer`` is loaded on first use: where a policy is named in a file, Serve's controller imports this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.gateway.client.errors import ConsumerEnded, InvalidConsumer
from muster.gateway.client.scaling.policy import LagAutoscalingPolicy

if TYPE_CHECKING:
    from muster.gateway.client.serving.consumer import Consumer

__all__ = ["Consumer", "ConsumerEnded", "InvalidConsumer", "LagAutoscalingPolicy"]


def __getattr__(name: str) -> Any:
    """Load ``Consumer``. Raises AttributeError for any other name."""
    if name != "Consumer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from muster.gateway.client.serving.consumer import Consumer

    return Consumer
