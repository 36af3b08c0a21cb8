"""Between a client and the actor: bytes that are delayed, duplicated, or lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from muster.actors.wire.kafka import codec
from tests.simulation.actor import Actor
from tests.simulation.schedule import Schedule

Then = Callable[[Any], None]
"""Gets the response's entity; None if no response arrived in time or the connection broke."""


@dataclass(slots=True)
class Trouble:
    """Probabilities of faults, per request. All 0: no faults."""

    lost_request: float = 0.0
    lost_reply: float = 0.0
    repeated: float = 0.0
    slow: float = 0.0


class Network:
    def __init__(self, schedule: Schedule, chance: random.Random, actor: Actor) -> None:
        self.trouble = Trouble()
        self._schedule = schedule
        self._chance = chance
        self._actor = actor
        self._arrives_ms: dict[str, int] = {}

    def send(
        self,
        sender: str,
        host: str,
        honest: bool,
        api_key: int,
        version: int,
        body: dict[str, Any],
        then: Then,
        timeout_ms: int,
        connection: str = "",
    ) -> None:
        """Send a request; ``then`` is called once. Requests of one client arrive in order, except for repeated ones."""
        frame = codec.encode_request(api_key, version, 0, sender, body)
        open_ = [True]

        def end(response: Any) -> None:
            if open_:
                open_.clear()
                timeout.cancel()
                then(response)

        def answered(response: bytes | None) -> None:
            if not open_ or self._chance.random() < self.trouble.lost_reply:
                return
            self._schedule.after(self._latency_ms(), lambda: end(response and decode(response)))

        def decode(response: bytes) -> Any:
            return codec.decode_response(api_key, version, response)[1]

        def arrive() -> None:
            self._actor.deliver(sender, honest, host, connection, frame, answered)

        timeout = self._schedule.after(timeout_ms, lambda: end(None))
        arrives_ms = max(self._schedule.now_ms + self._latency_ms(), self._arrives_ms.get(sender, 0))
        if self._chance.random() >= self.trouble.lost_request:
            self._arrives_ms[sender] = arrives_ms
            self._schedule.at(arrives_ms, arrive)
        if self._chance.random() < self.trouble.repeated:
            self._schedule.at(arrives_ms + self._chance.choice([0, 1, 30, 2_000, 8_000]), arrive)

    def _latency_ms(self) -> int:
        if self._chance.random() < self.trouble.slow:
            return self._chance.randint(20, 1_500)
        return self._chance.randint(0, 3)
