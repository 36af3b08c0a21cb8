"""Scenarios of clients of one host with one client id, one after another or side by side.

Each has topics of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tests.attribution.captured.client import Library, Role
from tests.attribution.captured.stage import Stage
from tests.attribution.truth import Group

_RECORDS = 1_500
_SOME = 500
_SPARK_ID = "consumer-spark-kafka-source-5f3a2c1e-9d41-executor-1"
RDKAFKA = "rdkafka"
"""librdkafka's default client id."""


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    about: str
    play: Callable[[Stage], None]
    may_be_lost: bool = False
    """Whether bytes of the groups may stay without a label."""


def _simple_in_turn(library: Library, *, settles: bool) -> Callable[[Stage], None]:
    """Return a scenario: a simple consumer, then a reader, a second simple consumer, and a member of its group.

    The first simple consumer reads, commits and closes.

    The next one begins when the labels before it are final, or at once.
    """

    def play(stage: Stage) -> None:
        topic, y = stage.topic(_RECORDS, partitions=1), stage.group("y")
        turns: tuple[tuple[Role, Group], ...] = (
            ("simple", stage.group("x")),
            ("nobody", None),
            ("simple", y),
            ("member", y),
        )
        for role, group in turns:
            client = stage.start(library, role, topic, group, _SOME)
            client.has_read()
            if group is not None:
                client.commit()
            client.close()
            if settles:
                stage.settle()

    return play


def _simple_beside(stage: Stage) -> None:
    """Begin a simple consumer and a reader without a group together, which read different amounts."""
    topic = stage.topic(_RECORDS, partitions=1)
    simple = stage.start("kafka-python", "simple", topic, stage.group("x"), _SOME)
    reader = stage.start("kafka-python", "nobody", topic, None, _SOME, start=2 * _SOME)
    for client in (simple, reader):
        client.has_read()
    simple.commit()
    simple.close()
    reader.close()


def _a_tool_looks(stage: Stage) -> None:
    """Request a group's offsets by a tool with librdkafka's client id, also while a reader without a group has it."""
    topic, x = stage.topic(_RECORDS, partitions=1), stage.group("x")
    stage.begin_at(x, topic, _SOME // 2)
    stage.look_at(x, topic, RDKAFKA)
    reader = stage.start("confluent", "nobody", topic, None, _SOME)
    reader.has_read()
    stage.look_at(x, topic, RDKAFKA)
    reader.close()
    stage.settle()
    member = stage.start("confluent", "member", topic, stage.group("y"), _RECORDS)
    member.is_idle()
    member.commit()
    member.close()


def _quiet(library: Library) -> Callable[[Stage], None]:
    """Nothing is produced. A group has read everything and has its label when another begins, reads and leaves."""

    def play(stage: Stage) -> None:
        topic = stage.topic(_RECORDS)
        first = stage.start(library, "member", topic, stage.group("stays"), _RECORDS)
        first.is_idle()
        stage.settle()
        second = stage.start(library, "member", topic, stage.group("leaves"), _RECORDS)
        second.is_idle()
        second.close()
        stage.settle()
        first.close()

    return play


def _side_by_side(
    library: Library,
    *,
    compression: str = "none",
    leave: Literal["at once", "in turn", "late"],
    begin_apart: bool = False,
) -> Callable[[Stage], None]:
    """Three groups begin together, read everything and leave: at once, one by one, or one by one when all are idle."""

    def play(stage: Stage) -> None:
        topic = stage.topic(_RECORDS, compression=compression)
        clients = []
        for number in range(3):
            group, begin = stage.group(f"g{number}"), (number + 1) * _SOME // 4 if begin_apart else 0
            if begin:
                stage.begin_at(group, topic, begin)
            clients.append(stage.start(library, "member", topic, group, _RECORDS - 2 * begin))
        for client in clients:
            client.is_idle() if leave == "late" else client.has_read()
        for client in clients if leave == "at once" else ():
            client.begin_to_close()
        for client in clients:
            client.close()

    return play


def _unequal(stage: Stage) -> None:
    """Three groups begin together. Each leaves when it has read its share, the last one at the end."""
    topic = stage.topic(4 * _RECORDS)
    shares = (_SOME, _RECORDS, 4 * _RECORDS)
    clients = [
        stage.start("kafka-python", "member", topic, stage.group(f"g{number}"), share)
        for number, share in enumerate(shares)
    ]
    for client in clients:
        client.has_read()
        client.close()


def _spark(stage: Stage) -> None:
    """Readers without a group whose client id is Java's default for one, as Spark's Kafka source makes it up."""
    topic = stage.topic(_RECORDS)
    readers = [stage.start("confluent", "nobody", topic, None, _SOME, start=at, client_id=_SPARK_ID) for at in (0, 400)]
    for reader in readers:
        reader.has_read()
    for reader in readers:
        reader.close()


_SHORT = _side_by_side("confluent", leave="at once")
_SHORT_ZSTD = _side_by_side("confluent", compression="zstd", leave="at once")
_SHORT_IN_TURN = _side_by_side("kafka-python", leave="in turn")
_LATE = _side_by_side("kafka-python", leave="late")
_APART = _side_by_side("confluent", leave="at once", begin_apart=True)
_TURNS, _AT_ONCE = (_simple_in_turn("kafka-python", settles=settles) for settles in (True, False))

SCENARIOS = (
    Scenario("simple-turns", "kafka-python: simple, none, simple, member, each when all has a label", _TURNS),
    Scenario("simple-at-once", "the same without pauses", _AT_ONCE),
    Scenario("simple-librdkafka", "the same with librdkafka", _simple_in_turn("confluent", settles=False)),
    Scenario("simple-beside", "kafka-python: simple and none, side by side", _simple_beside),
    Scenario("tool", "an admin client requests a group's offsets; a reader, a member", _a_tool_looks),
    Scenario("quiet", "kafka-python: on a quiet topic, who came later leaves first", _quiet("kafka-python")),
    Scenario("quiet-librdkafka", "the same with librdkafka", _quiet("confluent")),
    Scenario("short", "three groups begin together and leave at once", _SHORT, may_be_lost=True),
    Scenario("short-zstd", "the same, compressed", _SHORT_ZSTD, may_be_lost=True),
    Scenario("short-in-turn", "kafka-python: they leave one by one", _SHORT_IN_TURN, may_be_lost=True),
    Scenario("late", "kafka-python: they leave when all are idle", _LATE),
    Scenario("apart", "librdkafka: they begin at different committed offsets", _APART),
    Scenario("unequal", "kafka-python: they leave after different amounts", _unequal, may_be_lost=True),
    Scenario("spark", "readers without a group, with Spark's client id", _spark),
)
