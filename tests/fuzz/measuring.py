"""Effect of an attack on a client that behaves: beside it and alone, by turns, so that the machine is the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from tests.fuzz.attack import Attack
from tests.fuzz.canary import MAX_STOLEN_PERCENT, Second, mean_stolen, quantiles, seconds, undisturbed
from tests.fuzz.child import Child

ROUNDS = 6
PHASE_S = 10.0
"""How long the client is measured at a time."""
CALM_S = 10.0
"""From a pause of the attack until the client is measured alone: groups of the attackers end."""
_RESUME_S = 2.0
"""From the end of a pause until it is measured beside the attack."""


class Measuring:
    """The client's report is for a phase, or for nothing."""

    def __init__(self, canary: Child) -> None:
        self._canary = canary
        self.alone: list[Second] = []
        self.beside: list[Second] = []

    def was_alone(self) -> None:
        """There has been no attack since the last report."""
        self.alone += seconds(self._canary.report())

    async def rounds(self, attacks: Sequence[Attack]) -> None:
        """Measure; each round pauses the attacks."""
        for _ in range(ROUNDS):
            await self._skip(_RESUME_S)
            await asyncio.sleep(PHASE_S)
            self.beside += seconds(self._canary.report())
            for attack in attacks:
                attack.goes.clear()
            await self._skip(CALM_S)
            await asyncio.sleep(PHASE_S)
            self.was_alone()
            for attack in attacks:
                attack.goes.set()

    def end(self, attacks: Sequence[Attack]) -> None:
        """End the attack. If it was over before the first round, all since the last report counts."""
        last = seconds(self._canary.report())
        self.beside = self.beside or last
        for attack in attacks:
            attack.goes.set()

    async def _skip(self, duration_s: float) -> None:
        await asyncio.sleep(duration_s)
        self._canary.report()

    def report(self) -> Iterator[str]:
        """Yield the measurements, in lines."""
        yield f"alone, then beside the attack: {compared(self.alone, self.beside)}"
        alone, beside = undisturbed(self.alone), undisturbed(self.beside)
        if alone and beside:
            yield (
                f"without seconds in which others on the host took more than {MAX_STOLEN_PERCENT:.0f} % of the "
                f"machine's processors: {compared(alone, beside)}"
            )


def compared(first: Sequence[Second], second: Sequence[Second]) -> str:
    """Return quantiles of both, and the ratio."""
    one, other = quantiles(first), quantiles(second)
    return (
        f"p99 {one.p99:.2f}, {other.p99:.2f} ms, ratio {other.p99 / max(one.p99, 0.001):.1f}; "
        f"p50 {one.p50:.2f}, {other.p50:.2f} ms; longest {one.longest:.0f}, {other.longest:.0f} ms "
        f"({one.requests}, {other.requests} requests in {len(first)}, {len(second)} s; "
        f"others on the host took {mean_stolen(first):.1f}, {mean_stolen(second):.1f} % of the processors)"
    )
