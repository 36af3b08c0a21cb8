"""The processes of one run of the demo, and their progress."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from examples.demo.arrivals import Arrived
from examples.demo.checks import MemberSeen
from examples.demo.child import Child
from examples.demo.dataset import ROWS
from examples.demo.display import Display

TOPIC, PARTITIONS, GATEWAYS, OFFSETS_PARTITIONS = "flights", 6, 3, 50
JOIN_S = 60.0
_RATE_PER_S = 9_000
_START_S, _STOP_S = 120.0, 60.0
_TURN_S = 0.2


@dataclass(frozen=True, slots=True)
class Group:
    """A group of the demo and its consumers."""

    name: str
    library: str
    module: str
    members: int


GROUPS = (
    Group("billing", "confluent-kafka", "examples.demo.consume_confluent", 2),
    Group("dashboard", "kafka-python", "examples.demo.consume_kafka_python", 1),
    Group("archive", "aiokafka", "examples.demo.consume_aiokafka", 1),
)


class DemoError(RuntimeError):
    """Error after which the demo cannot continue; the message is one line with the reason."""


@dataclass
class Demo:
    """One run. ``undo`` ends everything that it started."""

    display: Display
    undo: ExitStack
    folder: Path
    for_console: bool = False
    """Whether the console may inject faults and change groups."""
    muster: Child | None = None
    bootstrap: str = ""
    metrics: tuple[str, ...] = ()
    """URL of each gateway's ``/metrics``."""
    console: str | None = None
    """URL that leads to the console."""
    producer: Child | None = None
    members: dict[str, list[Child]] = field(default_factory=dict)

    @property
    def storage(self) -> Path:
        return self.folder / "storage"

    def start_muster(self) -> None:
        self.display.step(f"muster up with {GATEWAYS} gateways, logs and data in {self.folder}")
        ready_file = self.folder / "ready.json"
        up = ("up", "--gateways", str(GATEWAYS), "--port", "0", "--storage", str(self.storage))
        settings = ["--set", f"offsets.topic.num.partitions={OFFSETS_PARTITIONS}", "--ready-file", str(ready_file)]
        if self.for_console:
            settings += ["--set", "fault.injection.enable=true", "--set", "http.changes.enable=true"]
        self.muster = self.run("muster", "muster.gateway.cli.main", *up, *settings, grace_s=_STOP_S)
        self.until(ready_file.exists, _START_S, "muster up to serve")
        ready = json.loads(ready_file.read_text())
        self.bootstrap, self.metrics = ",".join(ready["bootstrap"]), tuple(ready["metrics"])
        self.console = ready["console"]

    def start_clients(self, marks: Sequence[float]) -> None:
        """Start the consumers, and the producer when every group has its partitions, so that no lag is that of joining.

        At each of ``marks``, shares of the records, the producer slows down until it gets the signal to continue.
        """
        names = ", ".join(f"{group.name} ({group.library} x {group.members})" for group in GROUPS)
        self.display.step(f"consumers join: {names}")
        for group in GROUPS:
            what = ("--bootstrap", self.bootstrap, "--group", group.name, "--topic", TOPIC)
            self.members[group.name] = [
                self.run(f"{group.name}-{number}", group.module, *what) for number in range(1, group.members + 1)
            ]
        self.until(self._all_assigned, JOIN_S, "every group to have its partitions")
        self.display.step(f"producer replays {ROWS:,} flights at {_RATE_PER_S:,} records a second")
        slower = (word for mark in marks for word in ("--mark", str(mark)))
        where = ("--bootstrap", self.bootstrap, "--topic", TOPIC)
        self.producer = self.run("producer", "examples.demo.producer", *where, "--rate", str(_RATE_PER_S), *slower)

    def until(self, reached: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Wait and show progress. DemoError after the timeout, or if a process ends that should not."""
        deadline = time.monotonic() + timeout_s
        while not reached():
            if time.monotonic() > deadline:
                raise DemoError(f"waited {timeout_s:.0f} s for {what}; logs are in {self.folder}")
            self._check_alive()
            self.show()
            time.sleep(_TURN_S)

    def show(self) -> None:
        """Show how many records went in and out."""
        if self.producer is None:
            return
        counts = {"produced": self._delivered()} | {name: self._consumed(name) for name in self.members}
        self.display.records(counts)

    def under_way(self, share: float) -> Callable[[], bool]:
        """Return a check that the share of the records has been produced, and every group has begun to read."""
        return lambda: self._delivered() >= share * ROWS and all(self._consumed(name) for name in self.members)

    def status(self) -> dict[str, dict[str, Any]]:
        """Return the actors by name, as ``muster status`` shows them. Raises DemoError."""
        command = [sys.executable, "-m", "muster.gateway.cli.main", "status", "--json", "--storage", str(self.storage)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=JOIN_S, start_new_session=True)
        if done.returncode:
            raise DemoError(f"muster status: {done.stderr.strip().splitlines()[-1:]}")
        return {actor["name"]: actor for actor in json.loads(done.stdout)["actors"]}

    def read_to_the_end(self, ends: dict[int, int]) -> bool:
        """Return whether each group has read every partition to its end."""
        return all(self._position(name, partition) >= end for name in self.members for partition, end in ends.items())

    def stop_consumers(self) -> dict[str, list[MemberSeen]]:
        children = [child for group in self.members.values() for child in group]
        for child in children:
            child.terminate()
        for child in children:
            child.wait(_STOP_S)
        return {name: [_seen(child) for child in group] for name, group in self.members.items()}

    def run(self, name: str, module: str, *arguments: str, grace_s: float = 5.0) -> Child:
        child = Child(name, [sys.executable, "-m", module, *arguments], self.folder / f"{name}.log")
        self.undo.callback(child.end, grace_s)
        return child

    def last_words(self, name: str) -> str:
        """Return the last line that the child wrote to its log."""
        log = (self.folder / f"{name}.log").read_text(errors="replace").strip()
        return log.splitlines()[-1] if log else "no message"

    def _check_alive(self) -> None:
        consumers = [child for group in self.members.values() for child in group]
        ended = [child for child in consumers if child.exit_code is not None]
        ended += [self.muster] if self.muster and self.muster.exit_code is not None else []
        ended += [self.producer] if self.producer and self.producer.exit_code else []
        for child in ended:
            raise DemoError(f"{child.name} ended with {child.exit_code}: {self.last_words(child.name)}")

    def _all_assigned(self) -> bool:
        return all(
            sum(len((child.latest("assigned") or {"partitions": ()})["partitions"]) for child in group) == PARTITIONS
            and all((child.latest("assigned") or {"partitions": ()})["partitions"] for child in group)
            for group in self.members.values()
        )

    def _delivered(self) -> int:
        said = self.producer and (self.producer.latest("done") or self.producer.latest("progress"))
        return int(said["delivered"]) if said else 0

    def _consumed(self, group: str) -> int:
        return sum(self._position(group, partition) for partition in range(PARTITIONS))

    def _position(self, group: str, partition: int) -> int:
        said = [child.latest("progress") for child in self.members[group]]
        return max((int(line["next"].get(str(partition), 0)) for line in said if line), default=0)


def _seen(child: Child) -> MemberSeen:
    done = child.latest("done") or {"total": 0, "intervals": {}, "rows": ""}
    return MemberSeen(
        exit_code=child.exit_code,
        total=done["total"],
        intervals={
            int(partition): [(first, last) for first, last in found] for partition, found in done["intervals"].items()
        },
        rows=base64.b64decode(done["rows"]),
        arrived=Arrived.from_json(done.get("arrived")),
    )
