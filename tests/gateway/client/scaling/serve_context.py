"""Serve's part towards a policy, without Serve: what it says of a deployment, and calls as often as needed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from muster.gateway.client.scaling.policy import LagAutoscalingPolicy

_WAIT_S = 60.0


@dataclass
class Deployment:
    """A deployment at whatever number of replicas the policy asks for."""

    policy: LagAutoscalingPolicy
    target_num_replicas: int = 0
    capacity_adjusted_min_replicas: int = 0
    capacity_adjusted_max_replicas: int = 8

    def step(self) -> int:
        """Call the policy once, as Serve does in each round of its controller."""
        size, state = self.policy(self)
        assert state == {}
        bounded = max(size, self.capacity_adjusted_min_replicas)
        self.target_num_replicas = min(bounded, self.capacity_adjusted_max_replicas)
        return self.target_num_replicas

    def until(self, good: Callable[[int], bool], meanwhile: Callable[[], object] = lambda: None) -> int:
        """Step until the number of replicas is good; return it."""
        deadline_s = time.monotonic() + _WAIT_S
        while not good(size := self.step()):
            assert time.monotonic() < deadline_s, f"{size} replicas"
            meanwhile()
            time.sleep(0.02)
        return size
