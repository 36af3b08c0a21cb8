"""Ray Serve beside Muster: deployments whose replicas are members of a consumer group (docs/ray.md)."""

from muster.gateway.client.scaling.policy import LagAutoscalingPolicy

__all__ = ["LagAutoscalingPolicy"]
