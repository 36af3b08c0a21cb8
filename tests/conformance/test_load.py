"""The load generator of ``make bench``, against servers that do what a test needs."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from benchmarks.comparison.load import LoadFailed, Plan, Result, Step, Take, echo, run

_ERROR_AT = 9
_RESPONSE = bytes(7)
"""Content behind the correlation id: tagged fields, throttle time, error code."""


def _step(payload: bytes = b"", **changes: object) -> Step:
    body = struct.pack(">hhi", 12, 4, 0) + payload
    return replace(Step(struct.pack(">i", len(body)) + body, error_at=_ERROR_AT), **changes)  # type: ignore[arg-type]


@contextmanager
def _serving(response_to: Callable[[bytes], bytes | None]) -> Iterator[str]:
    """Serve one connection; it is closed where there is no response. Yields the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, response_to), daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    thread.join(10)


def _serve(listener: socket.socket, response_to: Callable[[bytes], bytes | None]) -> None:
    connection, _ = listener.accept()
    with suppress(ConnectionError), connection, connection.makefile("rb") as reader:  # at the end of the load
        while header := reader.read(4):
            frame = reader.read(int.from_bytes(header, "big"))
            response = response_to(frame)
            if response is None:
                return
            connection.sendall(struct.pack(">i", len(response) + 4) + frame[4:8] + response)


@pytest.mark.parametrize(("connections", "in_flight"), [(1, 1), (20, 1), (3, 20)])
def test_every_request_is_answered_and_counted(connections: int, in_flight: int) -> None:
    with echo(len(_RESPONSE)) as address:
        result = run(Plan([(address, [_step()])] * connections, 0.5, in_flight=in_flight))
    assert result.requests == result.latency.count > connections * in_flight
    assert result.bytes == result.requests * (8 + len(_RESPONSE))
    assert sum(result.by_interval) >= result.requests
    assert result.errors == {}
    assert 0 < result.latency.p50 <= result.latency.p99 <= result.latency.p999 <= result.latency.max


def test_an_open_loop_keeps_to_its_rate() -> None:
    with echo(len(_RESPONSE)) as address:
        result = run(Plan([(address, [_step()])] * 10, 5.0, in_flight=100, rate=200))
    assert 800 <= result.requests <= 1000, "those of the last second may be outstanding, or not even sent"


def test_latency_counts_from_when_a_request_was_due() -> None:
    """One request at a time, each 0.1 s, where one is due every 0.01 s: the later, the longer it waits."""
    pause = threading.Event()

    def slow(frame: bytes) -> bytes:
        pause.wait(0.1)
        return _RESPONSE

    with _serving(slow) as address:
        result = run(Plan([(address, [_step()])], 3.0, rate=100))
    assert 2 <= result.requests <= 30
    assert result.latency.max > (0.1 - 0.01) * 1_000_000 * result.requests


def test_errors_are_counted_by_code() -> None:
    codes = iter([0, 27, -1, 27] + [0] * 1_000_000)

    with _serving(lambda frame: bytes(5) + next(codes).to_bytes(2, "big", signed=True)) as address:
        result = run(Plan([(address, [_step()])], 3.0))
    assert result.errors == {27: 2, -1: 1}


def test_a_request_takes_what_a_response_had() -> None:
    """SyncGroup, for example, takes the generation of JoinGroup."""
    joined: list[int] = []
    synced: list[int] = []

    def respond(frame: bytes) -> bytes:
        if frame[8:] == b"join":
            joined.append(len(joined) + 1)
            return bytes(7) + struct.pack(">i", joined[-1])
        synced.append(struct.unpack(">i", frame[-4:])[0])
        return _RESPONSE

    take = Take(at=11, size=4, into=1, put_at=12 + len(b"sync"))
    with _serving(respond) as address:
        result = run(Plan([(address, [_step(b"join", take=take), _step(b"sync" + bytes(4))])], 0.3))
    assert len(synced) > 1
    assert synced == joined[: len(synced)]
    assert result.cycle.count in {len(synced), len(synced) - 1}


def test_a_large_response_counts_whole() -> None:
    with echo(1 << 20) as address:
        result = run(Plan([(address, [_step(bytes(1000))])], 0.5))
    assert result.bytes == result.requests * (8 + (1 << 20))


def test_begin_and_end_are_seen_while_connections_are_open() -> None:
    seen: list[str] = []
    with echo(len(_RESPONSE)) as address:
        plan = Plan([(address, [_step()])], 0.3, warm_up_s=0.3)
        result: Result = run(plan, begun=lambda: seen.append("begin"), ended=lambda: seen.append("end"))
    assert seen == ["begin", "end"]
    assert sum(result.by_interval) > result.requests, "the warm-up is not measured"


@pytest.mark.parametrize(
    ("response", "message"), [(None, "closed a connection"), (b"", "too short"), (b"\0", "too short")]
)
def test_what_is_no_response_fails(response: bytes | None, message: str) -> None:
    with _serving(lambda frame: response) as address, pytest.raises(LoadFailed, match=message):
        run(Plan([(address, [_step()])], 5.0))


def test_a_server_that_is_not_there_fails() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(LoadFailed, match="connect: Connection refused"):
        run(Plan([(address, [_step()])], 5.0))
