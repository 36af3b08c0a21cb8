"""Kafka Streams: Kafka's word count demo, killed, and continued by an instance that knows nothing of the first.

Its counts are in a store on its disk, with a compacted changelog topic, by which the second instance restores them;
words are grouped over a repartition topic, from which Kafka Streams deletes what it has processed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.conformance.artifacts import Kafka, streams
from tests.conformance.programs.program import Outcome, Program
from tests.conformance.programs.records import write
from tests.conformance.programs.words import FIRST, LINES, counted, described, each_once, history, latest, unfinished
from tests.conformance.topics import committed, create_topic, delete_topics, ends, own_configs
from tests.muster_process import eventually

pytestmark = pytest.mark.timeout(600)

INPUT, OUTPUT = "streams-plaintext-input", "streams-wordcount-output"
"""Names that the demo has."""
PARTITIONS = 2
DONE_S = 120
HEAP_MB = 256


@pytest.fixture
def topics(bootstrap: str) -> Iterator[str]:
    """Create the demo's topics, without records; yields the bootstrap address."""
    for topic in (INPUT, OUTPUT):
        create_topic(bootstrap, topic, PARTITIONS)
    yield bootstrap
    delete_topics(bootstrap, [INPUT, OUTPUT])


class WordCount:
    """The demo as an application of its own id."""

    def __init__(self, bootstrap: str, application: str, folder: Path, **properties: str) -> None:
        self.bootstrap, self.application, self._folder = bootstrap, application, folder
        self.release: Kafka = streams()
        self._properties = properties

    @property
    def changelog(self) -> str:
        return self._internal("-changelog")

    @property
    def repartition(self) -> str:
        return self._internal("-repartition")

    def instance(self, name: str, state: str) -> Program:
        """``state``: the folder of its store."""
        properties = {
            "bootstrap.servers": self.bootstrap,
            "application.id": self.application,
            "state.dir": str(self._folder / state),
            "commit.interval.ms": "200",
            "session.timeout.ms": "20000",
            **self._properties,
        }
        file = self._folder / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        main_class = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
        return Program(name, self.release.command(main_class, str(file), heap_mb=HEAP_MB), self._folder)

    def counts(self) -> dict[str, list[int]]:
        """Every count of each word, in the order of the output."""
        return history(self.bootstrap, OUTPUT, lambda value: int.from_bytes(value, "big"))

    def await_counts(self, lines: list[str]) -> None:
        """Wait until the output has, for each word, its number in those lines last."""
        eventually(lambda: latest(self.counts()), counted(lines).__eq__, f"{len(lines)} lines are counted", DONE_S)

    def await_commit(self) -> None:
        """Wait until everything that it reads is committed."""
        wanted = {
            key: offset
            for topic in (INPUT, self.repartition)
            for key, offset in ends(self.bootstrap, topic, PARTITIONS).items()
            if offset
        }
        offsets = lambda: committed(self.bootstrap, self.application)  # noqa: E731
        eventually(offsets, lambda found: wanted.items() <= found.items(), f"{wanted} are committed", DONE_S)

    def _internal(self, ending: str) -> str:
        listed = AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(timeout=30).topics
        (topic,) = (name for name in listed if name.startswith(f"{self.application}-") and name.endswith(ending))
        return topic


def test_counts_continue_on_another_disk(
    topics: str, fresh: Callable[[str], str], tmp_path: Path, outcome: Outcome
) -> None:
    app = WordCount(topics, fresh("word-count"), tmp_path)
    write(topics, INPUT, LINES[:FIRST], partitions=PARTITIONS)
    with app.instance("first", "one-disk") as first:
        app.await_counts(LINES[:FIRST])
        app.await_commit()
        first.kill()
    with app.instance("second", "another-disk") as second:
        write(topics, INPUT, LINES[FIRST:], partitions=PARTITIONS)
        app.await_counts(LINES)
        app.await_commit()
        assert second.stop() == 143, "it ended in order, by SIGTERM"
    counts = app.counts()
    assert each_once(counts)
    changelog, repartition = own_configs(topics, app.changelog), own_configs(topics, app.repartition)
    assert changelog["cleanup.policy"] == "compact"
    assert (repartition["cleanup.policy"], repartition["retention.ms"]) == ("delete", "-1")
    outcome(
        f"Kafka Streams {app.release.version}, `WordCountDemo`, at_least_once: killed, continued on an empty disk",
        described(counts),
    )


def test_exactly_once_wherever_it_is_killed(
    topics: str, fresh: Callable[[str], str], tmp_path: Path, outcome: Outcome
) -> None:
    """In a transaction: its records are there, but not committed. They are aborted when its timeout has passed."""
    properties = {"processing.guarantee": "exactly_once_v2", "commit.interval.ms": "3000"}
    app = WordCount(topics, fresh("word-count"), tmp_path, **properties)
    write(topics, INPUT, LINES[:FIRST], partitions=PARTITIONS)
    with app.instance("first", "one-disk") as first:
        app.await_counts(LINES[:FIRST])
        write(topics, INPUT, LINES[FIRST:], partitions=PARTITIONS)
        eventually(lambda: unfinished(topics, OUTPUT), bool, "a transaction is open", DONE_S)
        first.kill()
    with app.instance("second", "another-disk"):
        app.await_counts(LINES)
    counts = app.counts()
    assert each_once(counts)
    outcome(
        f"Kafka Streams {app.release.version}, `WordCountDemo`, exactly_once_v2: killed, continued on an empty disk",
        described(counts),
    )
