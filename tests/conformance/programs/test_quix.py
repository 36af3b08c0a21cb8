"""Quix Streams: a word count in Python, on librdkafka, killed, and continued by a process that knows nothing of it.

Its counts are in RocksDB, with a compacted changelog topic; words are grouped over a repartition topic.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.conformance.artifacts import HERE, Quix, quix
from tests.conformance.programs.program import Outcome, Program
from tests.conformance.programs.records import write
from tests.conformance.programs.words import FIRST, LINES, counted, described, each_once, history, latest, unfinished
from tests.conformance.topics import committed, create_topic, ends, own_configs
from tests.muster_process import eventually

pytestmark = pytest.mark.timeout(600)

PARTITIONS = 2
DONE_S = 120


class WordCount:
    """The program with topics and a group of its own."""

    def __init__(self, bootstrap: str, name: str, folder: Path, guarantee: str) -> None:
        self.release: Quix = quix()
        self.bootstrap, self.group, self._folder, self._guarantee = bootstrap, name, folder, guarantee
        self.input, self.output = f"{name}-input", f"{name}-output"
        for topic in (self.input, self.output):
            create_topic(bootstrap, topic, PARTITIONS)

    def instance(self, name: str) -> Program:
        """Return a process with a disk of its own."""
        program = [str(self.release.python), str(HERE / "quix" / "quix_words.py")]
        arguments = [self.bootstrap, self.group, self.input, self.output, str(self._folder / f"{name}-disk")]
        return Program(name, [*program, *arguments, self._guarantee], self._folder)

    def counts(self) -> dict[str, list[int]]:
        return history(self.bootstrap, self.output, json.loads)

    def await_counts(self, lines: list[str]) -> None:
        """Wait until the output has, for each word, its number in those lines last."""
        eventually(lambda: latest(self.counts()), counted(lines).__eq__, f"{len(lines)} lines are counted", DONE_S)

    def await_commit(self) -> None:
        """Wait until everything that it reads is committed."""
        (repartition,) = self.internal("repartition__")
        wanted = {
            key: offset
            for topic in (self.input, repartition)
            for key, offset in ends(self.bootstrap, topic, PARTITIONS).items()
            if offset
        }
        offsets = lambda: committed(self.bootstrap, self.group)  # noqa: E731
        eventually(offsets, lambda found: wanted.items() <= found.items(), f"{wanted} are committed", DONE_S)

    def internal(self, prefix: str) -> list[str]:
        listed = AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(timeout=30).topics
        return [name for name in listed if name.startswith(f"{prefix}{self.group}--")]


def test_counts_continue_on_another_disk(
    bootstrap: str, fresh: Callable[[str], str], tmp_path: Path, outcome: Outcome
) -> None:
    app = WordCount(bootstrap, fresh("quix"), tmp_path, "at-least-once")
    write(bootstrap, app.input, LINES[:FIRST], partitions=PARTITIONS)
    with app.instance("first") as first:
        app.await_counts(LINES[:FIRST])
        app.await_commit()
        first.kill()
    with app.instance("second") as second:
        write(bootstrap, app.input, LINES[FIRST:], partitions=PARTITIONS)
        app.await_counts(LINES)
        app.await_commit()
        assert second.stop() == 0
    counts = app.counts()
    assert each_once(counts)
    assert {own_configs(bootstrap, topic)["cleanup.policy"] for topic in app.internal("changelog__")} == {"compact"}
    outcome(
        f"Quix Streams {app.release.version}, a word count, at-least-once: killed, continued on an empty disk",
        described(counts),
    )


def test_exactly_once_wherever_it_is_killed(
    bootstrap: str, fresh: Callable[[str], str], tmp_path: Path, outcome: Outcome
) -> None:
    """In a transaction: its records are there, but not committed. They are aborted when its timeout has passed."""
    app = WordCount(bootstrap, fresh("quix"), tmp_path, "exactly-once")
    write(bootstrap, app.input, LINES[:FIRST], partitions=PARTITIONS)
    with app.instance("first") as first:
        app.await_counts(LINES[:FIRST])
        write(bootstrap, app.input, LINES[FIRST:], partitions=PARTITIONS)
        eventually(lambda: unfinished(bootstrap, app.output), bool, "a transaction is open", DONE_S)
        first.kill()
    with app.instance("second"):
        app.await_counts(LINES)
    counts = app.counts()
    assert each_once(counts)
    outcome(
        f"Quix Streams {app.release.version}, a word count, exactly-once: killed, continued on an empty disk",
        described(counts),
    )
