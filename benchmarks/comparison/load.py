"""The load generator: ``load.c``, compiled once, runs plans of prepared requests and reports what it saw.

It is written in C, so that it takes a small part of the cores that both servers share with it. ``--echo`` is a server
without any work: what the generator does against it is what the generator can do.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_muster.bound import bound

_SOURCE = Path(__file__).with_name("load.c")
_CACHE = Path(__file__).parents[2] / ".cache" / "bench"
_FLAGS = ("-O2", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-ldl")


class LoadFailed(RuntimeError):
    """Raised if the load generator cannot be built, or a server closes a connection or sends something that is no
    response."""


@dataclass(frozen=True, slots=True)
class Step:
    """One request of a connection."""

    frame: bytes
    """Size included. Its correlation id is set when it is sent."""
    error_at: int | None = None
    """Where the response has its error code, in bytes from its correlation id."""
    take: Take | None = None
    """Part of the response that a later request needs."""


@dataclass(frozen=True, slots=True)
class Take:
    """``size`` bytes at ``at`` of the response, put at ``put_at`` into the frame of the step ``into``."""

    at: int
    size: int
    into: int
    put_at: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Requests of each connection, over and over: its steps in turn."""

    connections: Sequence[tuple[str, Sequence[Step]]]
    """``host:port`` and steps of each."""
    duration_s: float
    warm_up_s: float = 0.0
    in_flight: int = 1
    """Requests that are outstanding at once on a connection; 1 if a step takes from a response."""
    rate: float = 0.0
    """Requests per second of all connections (open loop); 0: the next one when a response arrives (closed loop)."""
    tls: bool = False
    """Whether connections use TLS; the certificate is not checked."""


@dataclass(frozen=True, slots=True)
class Latency:
    """In microseconds."""

    count: int
    p50: float
    p99: float
    p999: float
    max: float


@dataclass(frozen=True, slots=True)
class Result:
    """Counts and times after the warm-up."""

    requests: int
    bytes: int
    """Size of all responses, with their size fields."""
    seconds: float
    latency: Latency
    cycle: Latency
    """All steps of a connection, from the first request to the last response."""
    errors: dict[int, int] = field(default_factory=dict)
    """Number of responses by Kafka's error code, where it is not 0."""
    own_cpu_s: float = 0.0
    """Processor time of the load generator, warm-up included."""
    by_interval: tuple[int, ...] = ()
    """Responses in each quarter of a second, warm-up included."""

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds


def run(plan: Plan, *, begun: Callable[[], None] | None = None, ended: Callable[[], None] | None = None) -> Result:
    """Run a plan. ``begun`` is called when the warm-up ends, ``ended`` at the end. LoadFailed."""
    with tempfile.NamedTemporaryFile(prefix="muster-load-") as file:
        file.write(_encode(plan))
        file.flush()
        with subprocess.Popen(
            bound([str(executable()), file.name]), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            lines = []
            for line in process.stdout:
                lines.append(line)
                if line == "begin\n" and begun is not None:
                    begun()
                if line == "end\n" and ended is not None:
                    ended()
            errors = process.stderr.read()
    if process.returncode != 0:
        raise LoadFailed(errors.strip() or f"the load generator ended with {process.returncode}")
    return _result(json.loads(lines[-1]))


@contextmanager
def echo(response_size: int) -> Iterator[str]:
    """Run a server that answers every request with as many zero bytes after the correlation id; yield its
    ``host:port``."""
    command = bound([str(executable()), "--echo", str(response_size)])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def executable() -> Path:
    """Return the compiled load generator; compiled anew when its source has changed.

    Raises LoadFailed without a C compiler.
    """
    source = _SOURCE.read_bytes()
    built = _CACHE / f"load-{hashlib.sha256(source).hexdigest()[:16]}"
    if not built.exists():
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            raise LoadFailed("make bench needs a C compiler (Debian: gcc and libc6-dev), or CC names one")
        _CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CACHE) as folder:
            output = Path(folder) / "load"
            done = subprocess.run(
                [compiler, *_FLAGS, "-o", str(output), str(_SOURCE)], capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise LoadFailed(f"{compiler} failed:\n{done.stderr}")
            output.rename(built)
    return built


def _encode(plan: Plan) -> bytes:
    """Encode with all numbers big-endian; load.c reads it in the same order."""
    rate_mhz = round(plan.rate * 1000)
    parts = [
        struct.pack(
            ">IIIIQI",
            len(plan.connections),
            plan.in_flight,
            round(plan.warm_up_s * 1000),
            round(plan.duration_s * 1000),
            rate_mhz,
            plan.tls,
        )
    ]
    for address, steps in plan.connections:
        host, _, port = address.rpartition(":")
        parts.append(struct.pack(">III", int(ipaddress.IPv4Address(host)), int(port), len(steps)))
        for step in steps:
            error_at = -1 if step.error_at is None else step.error_at
            take = step.take or Take(-1, 0, 0, 0)
            header = struct.pack(">IiiIII", len(step.frame), error_at, take.at, take.size, take.into, take.put_at)
            parts += [header, step.frame]
    return b"".join(parts)


def _result(found: dict[str, Any]) -> Result:
    return Result(
        requests=found["requests"],
        bytes=found["bytes"],
        seconds=found["seconds"],
        latency=Latency(**found["latency_us"]),
        cycle=Latency(**found["cycle_us"]),
        errors={int(code): number for code, number in found["errors"].items()},
        own_cpu_s=found["own_cpu_s"],
        by_interval=tuple(found["by_interval"]),
    )
