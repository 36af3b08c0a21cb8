"""Where the time of a request goes: a sample of the stack with each tick of the process's user time.

Samples rather than a profiler's clocks, since a profiler makes each call dearer and so shows the stages with most calls
as the longest; and rather than clocks around named functions, since those move. The time of what has no frame (uvloop,
the kernel's part of a call) is that of the frame that runs next. A stage is the folder of the innermost frame of the
product that has one; the codec, tables and other shared folders belong to whoever calls them.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType

from benchmarks.path.counting import Function, function_of, relative, send
from benchmarks.path.requests import Burst, Steps
from muster.actors.wire.internal import envelope
from muster.actors.wire.internal.listener import Peer
from muster.placement.client import Context

GATEWAY_IN, FORWARDING, ACTOR, CORE, LOG, GATEWAY_OUT, LOOP = STAGES = (
    "gateway in",
    "forwarding",
    "actor",
    "core",
    "log",
    "gateway out",
    "event loop",
)
"""``gateway in`` is all of the gateway before an actor has the request, and all of it if none gets it."""
CLIENT = "client"
_WIRE = "actors/wire/"
_STAGE_OF = (
    ("gateway/", GATEWAY_IN),
    ("actors/wire/internal/", FORWARDING),
    ("actors/offsets/", ACTOR),
    ("actors/coordinator/", ACTOR),
    ("actors/group/", CORE),
    ("actors/log/", LOG),
    ("benchmarks/path/world.py", CLIENT),
    ("benchmarks/path/sampling.py", CLIENT),
)
_TICK_S = 0.001
_WARM_UP_STEPS = 100


@dataclass(frozen=True, slots=True)
class Times:
    """Processor time per request, in us, without the client's own."""

    requests: int
    samples: int
    stages: Mapping[str, float]
    """User time."""
    kernel: float
    """Time in the kernel, the client's included."""
    functions: Mapping[Function, float]
    """User time in each function itself: that of what it calls in C is its own."""

    @property
    def user(self) -> float:
        return sum(self.stages.values())

    @property
    def dearest(self) -> str:
        """The stage with most user time."""
        return max(STAGES, key=lambda stage: self.stages[stage])


class _Sampler:
    def __init__(self) -> None:
        self.is_on = False
        self.has_reached_actor = False
        self.samples: Counter[str] = Counter()
        self.functions: Counter[CodeType] = Counter()
        self._known: dict[str, tuple[str, str | None]] = {}

    def sample(self, _: int, frame: FrameType | None) -> None:
        if self.is_on:
            stage = self._stage(frame)
            self.samples[stage] += 1
            if frame is not None and stage != CLIENT:
                self.functions[frame.f_code] += 1

    def _stage(self, frame: FrameType | None) -> str:
        found = LOOP
        while frame is not None:
            file = frame.f_code.co_filename
            if file not in self._known:
                self._known[file] = relative(file), stage_of(relative(file))
            name, stage = self._known[file]
            if stage is not None:
                return GATEWAY_OUT if stage == GATEWAY_IN and self.has_reached_actor else stage
            if name.startswith(_WIRE):
                found = FORWARDING  # unless it has a caller
            frame = frame.f_back
        return found


def stage_of(file: str) -> str | None:
    """Return None for files that serve several stages."""
    return next((stage for beginning, stage in _STAGE_OF if file.startswith(beginning)), None)


async def sample(steps: Steps, seconds: float) -> Times:
    """Send steps for so much processor time, one after another, and sample the counted bursts."""
    return await asyncio.create_task(_sample(steps, seconds))


async def _sample(steps: Steps, seconds: float) -> Times:
    step, requests, used_s = 0, 0, 0.0
    for step in range(_WARM_UP_STEPS):
        for burst in steps(step):
            await send(burst)
    with _sampling() as sampler:
        before, until_s = resource.getrusage(resource.RUSAGE_SELF), time.thread_time() + seconds
        while time.thread_time() < until_s:
            step += 1
            for burst in steps(step):
                if not burst.is_counted:
                    await send(burst)
                    continue
                used_s += await _sampled(burst, sampler)
                requests += burst.size
        after = resource.getrusage(resource.RUSAGE_SELF)
    user_s, kernel_s = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    user_us = used_s * user_s / (user_s + kernel_s) / requests * 1e6
    total = max(sampler.samples.total(), 1)
    stages = {stage: user_us * sampler.samples[stage] / total for stage in STAGES}
    functions: Counter[Function] = Counter()
    for code, count in sampler.functions.items():
        if (function := function_of(code)) is not None:
            functions[function] += count
    each = {function: user_us * count / total for function, count in functions.most_common()}
    return Times(requests, total, stages, used_s / requests * 1e6 - user_us, each)


async def _sampled(burst: Burst, sampler: _Sampler) -> float:
    """Return the processor time of the event loop's thread until all responses are there, in seconds."""
    sampler.has_reached_actor, sampler.is_on = False, True
    began_s = time.thread_time()
    waiting = [client.send(requests) for client, requests in burst.sends]
    for each in waiting:
        await each
    sampler.is_on = False
    return time.thread_time() - began_s


@contextmanager
def _sampling() -> Iterator[_Sampler]:
    sampler = _Sampler()
    receive, read_request = Peer._receive, envelope.read_request

    def reached(self: Peer, message: bytes) -> None:
        sampler.has_reached_actor = True
        receive(self, message)

    def reached_by_request(message: bytes) -> tuple[int, Context, bytes]:
        sampler.has_reached_actor = True
        return read_request(message)

    Peer._receive = reached  # type: ignore[method-assign]
    envelope.read_request = reached_by_request
    before = signal.signal(signal.SIGVTALRM, sampler.sample)
    signal.setitimer(signal.ITIMER_VIRTUAL, _TICK_S, _TICK_S)
    try:
        yield sampler
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        Peer._receive, envelope.read_request = receive, read_request  # type: ignore[method-assign]
