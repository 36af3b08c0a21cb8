"""The rows of table ``faults``, from the controller's own FaultControl and with signals to real processes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.actors.faults.control import FaultControl, Process
from muster.actors.faults.errors import FaultError
from muster.actors.faults.history import FaultHistory
from muster.actors.faults.model import Fault
from muster.actors.faults.registry import Book, FaultRegistry
from muster.actors.runtime.event_writer import EventWriter
from tests.table_rows import table_rows

NODE = "n1"


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000

    def __call__(self) -> int:
        self.now_ms += 1
        return self.now_ms


class Local:
    """A cluster of one node without gateways; an :class:`muster.actors.faults.control.Cluster`."""

    node_id = NODE

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def actor_of_group(self, group: str) -> str:
        return "offsets-7"

    def process_of(self, actor: str) -> Process:
        return Process(self.pid, NODE)

    def gateways(self) -> list[str]:
        return []

    async def publish(self, book: Book, paused: set[str]) -> list[str]:
        return []

    async def gather(self, paused: set[str]) -> None: ...

    async def run(self, node_id: str, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.to_thread(work, *arguments)


class Recorded:
    def __init__(self, directory: Path, pid: int) -> None:
        self.rows: list[Any] = []
        self.clock = Clock()
        self.history = FaultHistory(self.rows.append, self.clock)
        self.control = FaultControl(FaultRegistry(directory / "faults.json", self.clock), Local(pid), self.history)

    def events(self) -> list[tuple[Any, ...]]:
        return [(row["fault"], row["event"], row["actor"]) for row in self.rows]


@pytest.fixture
def recorded(tmp_path: Path, process: subprocess.Popen[bytes]) -> Recorded:
    return Recorded(tmp_path, process.pid)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([sys.executable, "-S", "-c", "import signal; signal.pause()"])
    yield child
    child.kill()
    child.wait()


def test_a_kill_is_recorded_with_the_time_before_the_signal(
    recorded: Recorded, process: subprocess.Popen[bytes]
) -> None:
    asyncio.run(recorded.control.inject(Fault("kill", group="billing"), "gateway-1"))
    assert process.wait(20) == -9
    assert recorded.events() == [("f-1", "injected", "offsets-7"), ("f-1", "fired", "offsets-7")]
    injected, fired = recorded.rows
    assert injected["ts"] < fired["ts"]
    assert (fired["action"], fired["group"], json.loads(fired["detail"])) == (
        "kill",
        "billing",
        {"pid": process.pid, "node_id": NODE},
    )


def test_a_signal_that_could_not_be_sent_did_not_fire(recorded: Recorded, process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    with pytest.raises(FaultError):
        asyncio.run(recorded.control.inject(Fault("kill", actor="log-0"), "gateway-1"))
    assert [event for _, event, _ in recorded.events()] == ["injected"]


def test_a_kill_that_is_left_to_a_gateway_is_recorded_before(recorded: Recorded) -> None:
    left = asyncio.run(recorded.control.inject(Fault("kill", actor="controller"), "gateway-1"))
    assert "left" in left
    assert recorded.events() == [("f-1", "injected", "controller"), ("f-1", "fired", "controller")]


def test_a_pause_fires_and_ends_by_a_continue_or_its_time(recorded: Recorded) -> None:
    async def scenario() -> None:
        await recorded.control.inject(Fault("pause", actor="log-0"), "gateway-1")
        await recorded.control.inject(Fault("continue", actor="log-0"), "gateway-1")
        await recorded.control.inject(Fault("pause", actor="log-0", expires_ms=60_000), "gateway-1")
        recorded.clock.now_ms += 60_000
        await recorded.control.faults()
        await recorded.control.inject(Fault("slow", actor="log-0", speed=0.5), "gateway-1")
        await recorded.control.stop()

    asyncio.run(scenario())
    assert recorded.events() == [
        ("f-1", "injected", "log-0"),
        ("f-1", "fired", "log-0"),
        ("f-1", "cleared", "log-0"),
        ("f-2", "injected", "log-0"),
        ("f-2", "fired", "log-0"),
        ("f-2", "expired", "log-0"),
        ("f-3", "injected", "log-0"),
        ("f-3", "fired", "log-0"),
        ("f-3", "cleared", "log-0"),
    ]
    assert json.loads(recorded.rows[-1]["detail"])["speed"] == 0.5


def test_what_has_happened_since_a_cursor(recorded: Recorded) -> None:
    async def scenario() -> list[dict[str, Any]]:
        control = recorded.control
        none = await control.happened(None)
        await control.inject(Fault("error", error="NOT_COORDINATOR", group="billing"), "gateway-1")
        first = await control.happened(none["after"])
        await control.inject(Fault("pause", actor="log-0"), "gateway-1")
        await control.clear("f-1")
        await control.inject(Fault("kill", actor="log-0"), "gateway-1")
        second = await control.happened(first["after"])
        others = await control.happened([0, 99])
        assert others["events"] == first["events"] + second["events"]
        return [none, first, second, await control.happened(second["after"])]

    parts = asyncio.run(scenario())
    found = [
        [(each["what"], each["fault"]["id"], each["fault"].get("actor")) for each in one["events"]] for one in parts
    ]
    assert found == [
        [],
        [("injected", "f-1", None)],
        [
            ("injected", "f-2", "log-0"),
            ("cleared", "f-1", None),
            ("cleared", "f-2", "log-0"),
            ("injected", "f-3", "log-0"),
        ],
        [],
    ]
    (injected,) = parts[1]["events"]
    assert injected["fault"]["fault"] == {"action": "error", "error": "NOT_COORDINATOR", "group": "billing"}
    assert injected["fault"]["injected_ms"] <= injected["at_ms"]


def test_request_faults_fire_at_once_and_then_in_sums(recorded: Recorded) -> None:
    always = Fault("error", api="Heartbeat", group="billing", client_id="app", error="NOT_COORDINATOR")

    async def scenario() -> None:
        await recorded.control.inject(always, "gateway-1")
        second = Fault("close", api="SyncGroup", member="m-1", when={"nth": 2})
        await recorded.control.inject(second, "gateway-1")
        assert [await recorded.control.draw("f-2") for _ in range(3)] == [1, 2, 3]
        assert await recorded.control.draw("f-9") == 0
        for count in (3, 4, 5):
            await recorded.control.report({"f-1": count, "f-9": 1})
        recorded.history.collect()
        recorded.history.collect()
        recorded.history.collect()
        await recorded.control.report({"f-1": 6})
        await recorded.control.report({"f-1": 7})
        await recorded.control.clear(None)

    asyncio.run(scenario())
    fired = [(row["fault"], json.loads(row["detail"])["requests"]) for row in recorded.rows if row["event"] == "fired"]
    assert fired == [("f-2", 1), ("f-1", 3), ("f-1", 9), ("f-1", 6), ("f-1", 7)]
    assert recorded.events()[-2:] == [("f-1", "cleared", None), ("f-2", "cleared", None)]
    first = recorded.rows[0]
    assert (first["api"], first["group"], first["client_id"], first["member_id"]) == (
        "Heartbeat",
        "billing",
        "app",
        None,
    )
    assert json.loads(first["detail"]) == {"error": "NOT_COORDINATOR"}


def test_what_is_in_force_ends_with_the_cluster(recorded: Recorded) -> None:
    async def scenario() -> None:
        await recorded.control.inject(Fault("error", api="Heartbeat", error="NOT_COORDINATOR"), "gateway-1")
        await recorded.control.inject(Fault("pause", actor="log-0"), "gateway-1")
        await recorded.control.report({"f-1": 2})
        await recorded.control.report({"f-1": 3})
        await recorded.control.stop()

    asyncio.run(scenario())
    ended = [(row["fault"], row["event"], row["actor"]) for row in recorded.rows[-3:]]
    assert ended == [("f-2", "cleared", "log-0"), ("f-1", "fired", None), ("f-1", "cleared", None)]


def test_rows_are_rows_of_the_table(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path, "faults", "controller", flush_ms=3_600_000, now_ms=lambda: 1)
    control = FaultControl(
        FaultRegistry(tmp_path / "faults.json", lambda: 1), Local(os.getpid()), FaultHistory(writer.add, lambda: 5)
    )

    async def scenario() -> None:
        await control.inject(Fault("delay", api="Fetch", topic="flights", delay_ms=5, expires_ms=100), "gateway-1")
        await control.clear("f-1")
        await writer.close()

    asyncio.run(scenario())
    rows = table_rows(tmp_path, "faults")
    assert [(row["ts"], row["event"]) for row in rows] == [(5, "injected"), (5, "cleared")]
    assert json.loads(rows[0]["detail"]) == {"topic": "flights", "delay_ms": 5, "expires_ms": 100}
