"""Ray Serve on topics: deployments that consume, and a policy that scales them by lag (docs/ray.md)."""

from muster.gateway.client.errors import ConsumerEnded, InvalidConsumer
from muster.gateway.client.scaling.policy import LagAutoscalingPolicy
from muster.gateway.client.serving.consumer import Consumer

__all__ = ["Consumer", "ConsumerEnded", "InvalidConsumer", "LagAutoscalingPolicy"]
