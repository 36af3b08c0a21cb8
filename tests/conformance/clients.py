"""Kafka's own Java clients and tools, and kafkajs, as processes with events for which a test can wait."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

from pytest_muster.bound import bound
from tests.conformance.artifacts import Kafka, KafkaJs

T = TypeVar("T")
Event = dict[str, Any]
Partition = tuple[str, int]

_HEAP_MB = 128
_TOOL_S = 90
_EVENT_S = 60
_STOP_S = 30

_news = threading.Condition()
"""Notified at every line of every process, so that one condition may cover several of them."""


def wait_until(condition: Callable[[], T], what: str, *processes: EventProcess, timeout_s: float = _EVENT_S) -> T:
    """Return the first true value. Evaluated whenever a process writes.

    Raises AssertionError with the logs after the timeout.
    """
    deadline = time.monotonic() + timeout_s
    with _news:
        while not (value := condition()):
            ended = [f"{process.name} ended with {process.ended}" for process in processes if process.ended is not None]
            late = time.monotonic() >= deadline
            assert not late, "\n".join([f"not within {timeout_s:.0f} s: {what}", *ended, *map(str, processes)])
            _news.wait(min(1.0, max(0.0, deadline - time.monotonic())))
    return value


class EventProcess:
    """A program that writes a JSON object per line; ends with the ``with`` block."""

    def __init__(self, name: str, command: Sequence[str], environment: dict[str, str] | None = None) -> None:
        self.name = name
        self.events: list[Event] = []
        self.log: list[str] = []
        """Lines of its error output."""
        self._process = subprocess.Popen(
            bound(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read, args=(self._process.stdout, self._take), daemon=True),
            threading.Thread(target=self._read, args=(self._process.stderr, self.log.append), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @property
    def ended(self) -> int | None:
        """Exit code, or None while it runs."""
        return self._process.poll()

    def named(self, name: str) -> list[Event]:
        """Events of that name so far."""
        return [event for event in list(self.events) if event["name"] == name]

    def stop(self) -> int:
        """SIGTERM, and the exit code once all its output is read; SIGKILL and TimeoutExpired if it does not end."""
        if self.ended is None:
            self._process.terminate()
        try:
            code = self._process.wait(_STOP_S)
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        for reader in self._readers:
            reader.join()
        return code

    def _read(self, lines: IO[str], take: Callable[[str], None]) -> None:
        with lines:
            for line in lines:
                with _news:
                    take(line.rstrip("\n"))
                    _news.notify_all()

    def _take(self, line: str) -> None:
        self.events.append(json.loads(line))

    def __enter__(self) -> EventProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __str__(self) -> str:
        return f"{self.name}: {self.events[-5:]}\n" + "\n".join(self.log[-10:])


class VerifiableProducer(EventProcess):
    """``kafka-verifiable-producer``: increasing integers, with those that were acknowledged."""

    def __init__(self, release: Kafka, bootstrap: str, topic: str, *, throughput: int, keys: int) -> None:
        """``throughput``: records per second; ``keys``: number of keys, used in turn."""
        arguments = ["--bootstrap-server", bootstrap, "--topic", topic]
        arguments += ["--throughput", str(throughput), "--repeating-keys", str(keys)]
        main_class = "org.apache.kafka.tools.VerifiableProducer"
        super().__init__("producer", release.command(main_class, *arguments, heap_mb=_HEAP_MB))

    def acknowledged(self) -> set[str]:
        return {event["value"] for event in self.named("producer_send_success")}


class VerifiableConsumer(EventProcess):
    """``kafka-verifiable-consumer``: commits what it read after every poll, and reports every event."""

    def __init__(self, release: Kafka, bootstrap: str, name: str, *, topic: str, group: str, **options: str) -> None:
        """``options``: those of the tool, with underscores, as in ``group_instance_id="a"``."""
        arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group, "--verbose"]
        for option, value in options.items():
            arguments += [f"--{option.replace('_', '-')}", value]
        main_class = "org.apache.kafka.tools.VerifiableConsumer"
        super().__init__(name, release.command(main_class, *arguments, heap_mb=_HEAP_MB, log_level="INFO"))

    def assigned(self) -> set[Partition]:
        """Its current partitions, by the events so far."""
        held: set[Partition] = set()
        for event in list(self.events):
            if event["name"] == "partitions_assigned":
                held |= _partitions(event)
            elif event["name"] == "partitions_revoked":
                held -= _partitions(event)
        return held

    def revoked(self) -> set[Partition]:
        """Every partition that was ever revoked."""
        return set().union(*map(_partitions, self.named("partitions_revoked")))

    def values(self) -> list[str]:
        return [event["value"] for event in self.named("record_data")]

    def committed(self) -> bool:
        """Whether everything that it read is committed."""
        last = [event for event in list(self.events) if event["name"] in ("record_data", "offsets_committed")]
        return not last or (last[-1]["name"] == "offsets_committed" and last[-1]["success"])

    def generations(self) -> list[int]:
        """For each successful join of the group, in order, from the Java client's log."""
        marks = [
            line.partition("Successfully joined group with generation Generation{generationId=") for line in self.log
        ]
        return [int(rest.partition(",")[0]) for _, found, rest in marks if found]


class KafkaJsMember(EventProcess):
    """A member of a group by kafkajs, which commits what it read batch by batch (``kafkajs/member.cjs``)."""

    def __init__(self, installed: KafkaJs, bootstrap: str, name: str, *, topic: str, group: str) -> None:
        program = [str(installed.node), str(Path(__file__).parent / "kafkajs" / "member.cjs")]
        super().__init__(name, [*program, bootstrap, topic, group, name], installed.environment())

    def assigned(self) -> set[Partition]:
        """Partitions of its last join."""
        joins = self.named("joined")
        return set() if not joins else {(joins[-1]["topic"], partition) for partition in joins[-1]["partitions"]}

    def values(self) -> list[str]:
        return [event["value"] for event in self.named("record")]


class Tools:
    """Kafka's command line tools against one cluster."""

    def __init__(self, release: Kafka, bootstrap: str) -> None:
        self.release, self.bootstrap = release, bootstrap

    def consumer_groups(self, *arguments: str) -> str:
        """Output of ``kafka-consumer-groups``, which includes errors: then it ends with 0 all the same."""
        return self.run("consumer.group.ConsumerGroupCommand", *arguments)

    def configs(self, *arguments: str) -> str:
        """Output of ``kafka-configs``. Raises AssertionError if it fails."""
        return self._run("org.apache.kafka.tools.ConfigCommand", *arguments)

    def run(self, tool: str, *arguments: str, stdin: str = "") -> str:
        """Return the standard output of the class ``tool`` below ``org.apache.kafka.tools``.

        Raises AssertionError if it fails.
        """
        return self._run(f"org.apache.kafka.tools.{tool}", *arguments, stdin=stdin)

    def attempt_configs(self, *arguments: str) -> tuple[bool, str]:
        """Whether ``kafka-configs`` succeeds, and all of its output."""
        done = self._done("org.apache.kafka.tools.ConfigCommand", *arguments)
        return done.returncode == 0, done.stdout + done.stderr

    def _run(self, main_class: str, *arguments: str, stdin: str = "") -> str:
        done = self._done(main_class, *arguments, stdin=stdin)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _done(self, main_class: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = self.release.command(main_class, "--bootstrap-server", self.bootstrap, *arguments, heap_mb=_HEAP_MB)
        return subprocess.run(bound(command), input=stdin, capture_output=True, text=True, timeout=_TOOL_S)


def table(text: str) -> list[dict[str, str]]:
    """Rows of the table in the output of ``kafka-consumer-groups``, by column name; other lines are ignored.

    The only value with blanks is the last one, STATUS of ``--delete-offsets``, and ``HOST:PORT  (ID)`` of COORDINATOR.
    """
    lines = [re.sub(r"\s+\(", "(", line).split() for line in text.splitlines()]
    heads = [number for number, line in enumerate(lines) if line[:1] in (["GROUP"], ["TOPIC"])]
    if not heads:
        return []
    names = lines[heads[0]]
    below = itertools.takewhile(bool, lines[heads[0] + 1 :])
    return [dict(zip(names, [*row[: len(names) - 1], " ".join(row[len(names) - 1 :])], strict=True)) for row in below]


def _partitions(event: Event) -> set[Partition]:
    return {(partition["topic"], partition["partition"]) for partition in event["partitions"]}
