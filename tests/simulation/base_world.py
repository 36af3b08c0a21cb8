"""Base of the group coordinator's worlds: their times, their trace, and how they end."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

from tests.simulation.actor import Faults, Step, StepKind
from tests.simulation.brief import brief
from tests.simulation.network import Trouble
from tests.simulation.planted.broken import Broken
from tests.simulation.promises import Promises
from tests.simulation.schedule import Schedule

START_MS = 1_700_000_000_000
STEPS = 1_500
"""Events before the faults stop."""
HEALING_MS = 240_000
"""Time limit for the recovery after the faults have stopped: by then, dead members and their phases have ended."""
TRACE = 60
"""Lines of the trace that are kept."""


class BaseWorld:
    def __init__(self, seed: int, *, trace_all: bool = False) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.schedule = Schedule(START_MS)
        self.trace: deque[tuple[int, str, tuple[Any, ...]]] = deque(maxlen=None if trace_all else TRACE)
        self.promises = Promises()
        self.rumours = self.promises.rumours
        self.events: Counter[str] = Counter()
        self.core_steps = 0
        self._faulty = True
        self._next_offset = 0

    @property
    def counts(self) -> Counter[str]:
        offsets = self.promises.offsets
        return self.events + Counter(core_steps=self.core_steps, acknowledged=offsets.acknowledged, ended=offsets.ended)

    def next_offset(self) -> int:
        self._next_offset += 1
        return self._next_offset

    def note(self, text: str, *args: Any) -> None:
        """Add a line to the trace; formatted only when it is read."""
        self.trace.append((self.schedule.now_ms - START_MS, text, args))

    def history(self) -> Iterator[str]:
        for at_ms, text, args in self.trace:
            yield f"{at_ms:>8} ms  {text % tuple(brief(each) for each in args)}"

    def _note_step(self, step: Step) -> None:
        if step.kind is not StepKind.REQUEST:
            self.note("%s %s", step.kind.value, step.write or "")
        for event in step.outcome.events:
            self.events[type(event).__name__] += 1
            self.note("  %s", event)
        for record in step.outcome.records:
            self.note("  writes %s: %s", step.outcome.write, record)
        for received, response in step.answered:
            self.note("  answers %s of %s: %s", received.token, received.sender, response)

    def _every(self, mean_ms: int, do: Callable[[], None]) -> None:
        def happens() -> None:
            if self._faulty:
                do()
                self._every(mean_ms, do)

        self.schedule.after(self.chance.randint(1, 2 * mean_ms), happens)

    def _stop_faults(self, trouble: Trouble, faults: Faults) -> None:
        self.note("the faults stop")
        self._faulty = False
        trouble.lost_request = trouble.lost_reply = trouble.repeated = trouble.slow = 0.0
        faults.slow_write = faults.stuck_write = faults.failed_write = faults.refused_write = 0.0

    def _until_well(self, unwell: Callable[[], Iterator[str]]) -> None:
        """Until ``unwell`` finds nothing. Raises Broken if that takes too long."""
        until_ms = self.schedule.now_ms + HEALING_MS
        wrong = "nothing was looked at"
        while wrong:
            for _ in range(20):
                self.schedule.step()
            wrong = "; ".join(unwell())
            if wrong and self.schedule.now_ms > until_ms:
                raise Broken(wrong, "groups_get_well")
