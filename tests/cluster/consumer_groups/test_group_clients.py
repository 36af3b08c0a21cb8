"""Consumer groups of unmodified client libraries: rebalances, static membership, members of several libraries.

What holds for several libraries is tested with all of them side by side, each in a group of its own.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import kafka.errors
import pytest
from aiokafka.coordinator.assignors import range as aiokafka_range
from aiokafka.coordinator.assignors.sticky import sticky_assignor as aiokafka_sticky
from confluent_kafka import KafkaError
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.cluster.consumer_groups.groups import (
    ALL,
    WAIT_S,
    assignments,
    commits,
    create,
    describe,
    generation,
    leave,
    rebalances_since,
    until_assigned,
    until_committed,
    until_read,
    until_settled,
    working,
)
from tests.cluster.consumer_groups.members import (
    AiokafkaMember,
    ConfluentMember,
    KafkaPythonMember,
    Member,
    Move,
    Producer,
    committed_offsets,
)
from tests.muster_process import Muster, eventually

Fresh = Callable[[str], str]
CLIENTS: tuple[type[Member], ...] = (ConfluentMember, KafkaPythonMember, AiokafkaMember)
ASSIGNORS: dict[tuple[type[Member], str], Any] = {
    (ConfluentMember, "range"): "range",
    (ConfluentMember, "cooperative-sticky"): "cooperative-sticky",
    (KafkaPythonMember, "range"): [RangePartitionAssignor],
    (KafkaPythonMember, "sticky"): [StickyPartitionAssignor],
    (KafkaPythonMember, "cooperative-sticky"): [CooperativeStickyAssignor],
    (AiokafkaMember, "range"): [aiokafka_range.RangePartitionAssignor],
    (AiokafkaMember, "sticky"): [aiokafka_sticky.StickyPartitionAssignor],
}
COUNT = 300


class Kind(NamedTuple):
    """A client library with an assignor (None: the library's default), and the group in which it is tested."""

    client: type[Member]
    assignor: str | None
    group: str

    def config(self, **config: Any) -> dict[str, Any]:
        """In the library's spelling; given in that of kafka-python and aiokafka."""
        config = {"heartbeat_interval_ms": 500, **config}
        if self.assignor is not None:
            config["partition_assignment_strategy"] = ASSIGNORS[self.client, self.assignor]
        return {name.replace("_", "."): config[name] for name in config} if self.client is ConfluentMember else config

    def member(self, muster: Muster, topic: str, **config: Any) -> Member:
        """Not started."""
        return self.client(muster.bootstrap, topic, self.group, **self.config(**config))


def kinds(fresh: Fresh, assignor: str | None, *clients: type[Member]) -> list[Kind]:
    return [Kind(client, assignor, fresh(f"{client.__name__}-{assignor}")) for client in clients]


@pytest.fixture
def topic(muster: Muster, fresh: Fresh) -> str:
    name = fresh("group-clients")
    create(muster, name)
    return name


def moved(member: Member, before: int) -> list[Move]:
    """Return assignments and revocations of at least one partition, except the first ``before`` moves."""
    return [(what, partitions) for what, partitions in member.moves[before:] if partitions]


def test_eager_members_give_up_everything_and_leave_at_once(muster: Muster, fresh: Fresh, topic: str) -> None:
    groups = [
        *kinds(fresh, "range", *CLIENTS),
        *kinds(fresh, "sticky", KafkaPythonMember, AiokafkaMember),
    ]
    firsts, seconds = ([kind.member(muster, topic) for kind in groups] for _ in range(2))
    producer = Producer(muster.bootstrap, topic)
    producer.send(COUNT)
    producer.flush()
    with working(*firsts):
        for first in firsts:
            until_read([first], COUNT)
            assert moved(first, 0) == [("assigned", ALL)]
        with working(*seconds, beside=firsts):
            for first, second in zip(firsts, seconds, strict=True):
                assert first.moves[-2:] == [("revoked", ALL), ("assigned", ALL - second.assigned)]
                assert second.moves[-1] == ("assigned", ALL - first.assigned)
                assert len(first.assigned) == len(second.assigned) == 3
            shares = [frozenset(first.assigned) for first in firsts]
            producer.send(COUNT)
            producer.flush()
            for pair in zip(firsts, seconds, strict=True):
                until_read(pair, 2 * COUNT)
        for first, share in zip(firsts, shares, strict=True):
            assert len(describe(muster, first.group).members) == 1, "who closes has left before close() returns"
            until_assigned(first, ALL)
            assert first.moves[-2:] == [("revoked", share), ("assigned", ALL)]


def test_cooperative_members_keep_what_does_not_move(muster: Muster, fresh: Fresh, topic: str) -> None:
    groups = kinds(fresh, "cooperative-sticky", ConfluentMember, KafkaPythonMember)
    pairs = [[kind.member(muster, topic) for _ in range(2)] for kind in groups]
    thirds = [kind.member(muster, topic) for kind in groups]
    settled = [member for pair in pairs for member in pair]
    producer = Producer(muster.bootstrap, topic)
    producer.send(COUNT)
    producer.flush()
    with working(*settled):
        for pair in pairs:
            until_read(pair, COUNT)
        before = {member: len(member.moves) for member in settled}
        with working(*thirds, beside=settled):
            for pair, third in zip(pairs, thirds, strict=True):
                members = [*pair, third]
                eventually(lambda: sizes(members), lambda now: now == [2, 2, 2], "balanced", WAIT_S)  # noqa: B023
                taken = [moved(member, before[member]) for member in pair]
                assert [[what for what, _ in moves] for moves in taken] == [["revoked"], ["revoked"]]
                assert frozenset().union(*(partitions for [(_, partitions)] in taken)) == third.assigned
                mine = sorted(sorted(member.assigned) for member in members)
                eventually(lambda: assignments(muster, third.group), lambda now: now == mine, "described", WAIT_S)  # noqa: B023
            shares = [frozenset(third.assigned) for third in thirds]
            before = {member: len(member.moves) for member in settled}
            producer.send(COUNT)
            producer.flush()
            for pair, third in zip(pairs, thirds, strict=True):
                until_read([*pair, third], 2 * COUNT)
        until_settled(settled)
        for pair, share in zip(pairs, shares, strict=True):
            given = [moved(member, before[member]) for member in pair]
            assert [[what for what, _ in moves] for moves in given] == [["assigned"], ["assigned"]]
            assert frozenset().union(*(partitions for [(_, partitions)] in given)) == share
            assert sum(len(member.assigned) for member in pair) == len(ALL)


def sizes(members: Sequence[Member]) -> list[int]:
    return [len(member.assigned) for member in members]


def test_a_static_member_comes_back_without_a_rebalance(muster: Muster, fresh: Fresh, topic: str) -> None:
    groups = kinds(fresh, "range", *CLIENTS)
    producer = Producer(muster.bootstrap, topic)
    with contextlib.ExitStack() as stack:

        def started(instance: str, beside: Sequence[Member] = ()) -> list[Member]:
            config = {"group_instance_id": instance, "session_timeout_ms": 300_000}
            members = [kind.member(muster, topic, **config) for kind in groups]
            stack.callback(leave, members)
            for member in members:
                member.start()
            until_settled(members, beside)
            return members

        leaders = started("leader")
        followers = started("follower", leaders)
        generations = [generation(muster, kind.group) for kind in groups]
        for instance, stopped, others in (("leader", leaders, followers), ("follower", followers, leaders)):
            shares = [member.assigned for member in stopped]
            moves = [list(member.moves) for member in others]
            leave(stopped)
            for kind in groups:
                instances = {member.group_instance_id for member in describe(muster, kind.group).members}
                assert instances == {"leader", "follower"}, "close() does not leave"
            stopped[:] = started(instance, others)
            assert [member.assigned for member in stopped] == shares
            producer.send(COUNT)
            producer.flush()
            for kind in groups:
                until_committed(muster, kind.group, topic, producer.sent)
            assert [member.moves for member in others] == moves, "the others saw no rebalance"
            assert [generation(muster, kind.group) for kind in groups] == generations
            assert [member.refused for member in (*stopped, *others) if member.refused] == []


def fatal(member: ConfluentMember) -> list[KafkaError]:
    """Return the error that ended it; it may have reported before that the new topic does not exist yet."""
    return [error for error in member.errors if error.code() == KafkaError._FATAL]


def test_a_static_member_is_fenced_by_its_successor(muster: Muster, fresh: Fresh, topic: str) -> None:
    """aiokafka is excluded: its heartbeats and commits do not carry the instance id."""
    groups = kinds(fresh, "range", ConfluentMember, KafkaPythonMember)
    firsts, seconds = (
        [kind.member(muster, topic, group_instance_id="the-only-one") for kind in groups] for _ in range(2)
    )
    producer = Producer(muster.bootstrap, topic)
    with working(*firsts):
        before = [generation(muster, kind.group) for kind in groups]
        with working(*seconds):
            producer.send(COUNT)
            producer.flush()
            for second in seconds:
                until_read([second], COUNT)
            confluent, kafka_python = firsts
            assert isinstance(confluent, ConfluentMember)
            error, *_ = eventually(lambda: fatal(confluent), bool, "librdkafka is fenced", WAIT_S)
            assert KafkaError(KafkaError.FENCED_INSTANCE_ID).str() in error.str()
            refused = eventually(lambda: kafka_python.refused, bool, "kafka-python is fenced", WAIT_S)
            assert {type(error) for error in refused} == {kafka.errors.FencedInstanceIdError}
            assert [generation(muster, kind.group) for kind in groups] == before
            assert [second.refused for second in seconds] == [[], []]


def test_libraries_share_a_group(muster: Muster, fresh: Fresh, topic: str) -> None:
    """Each library leads one of the groups: its assignor reads the subscriptions of the other two."""
    groups = {client: fresh(f"led-by-{client.__name__}") for client in CLIENTS}
    leaders = [Kind(client, "range", group).member(muster, topic) for client, group in groups.items()]
    others = [
        Kind(client, "range", group).member(muster, topic)
        for leader, group in groups.items()
        for client in CLIENTS
        if client is not leader
    ]
    producer = Producer(muster.bootstrap, topic)
    with working(*leaders), working(*others, beside=leaders):
        everybody = [*leaders, *others]
        for group in groups.values():
            members = [member for member in everybody if member.group == group]
            eventually(lambda: sizes(members), lambda now: now == [2, 2, 2], f"{group} is balanced", WAIT_S)  # noqa: B023
            assert frozenset().union(*(member.assigned for member in members)) == ALL
            assert assignments(muster, group) == [[0, 1], [2, 3], [4, 5]]
        moves = [list(member.moves) for member in everybody]
        producer.send(2 * COUNT)
        producer.flush()
        for group in groups.values():
            until_committed(muster, group, topic, producer.sent)
            members = [member for member in everybody if member.group == group]
            read = [record for member in members for record in member.read]
            assert len(read) == producer.sent, "no member reads what another reads"
            producer.check(read)
            assert all({partition for partition, _, _ in member.read} == member.assigned for member in members)
        assert [member.moves for member in everybody] == moves
        assert [member.refused for member in everybody if member.refused] == []


def test_rolling_restart_loses_nothing(muster: Muster, fresh: Fresh, topic: str) -> None:
    [kind] = kinds(fresh, "range", ConfluentMember)
    running = [kind.member(muster, topic) for _ in range(3)]
    everybody = list(running)
    producer, stop = Producer(muster.bootstrap, topic), threading.Event()
    producing = threading.Thread(target=producer.send_until, args=(stop,), daemon=True)
    producing.start()
    try:
        for member in running:
            member.start()
        until_settled(running)
        for _ in range(3):
            stopped = running.pop(0)
            eventually(lambda: stopped.commits, bool, "it has committed", WAIT_S)  # noqa: B023
            stopped.leave()
            until_settled(running)
            running.append(kind.member(muster, topic))
            everybody.append(running[-1])
            running[-1].start()
            until_settled(running)
        stop.set()
        producing.join()
        producer.flush()
        until_committed(muster, kind.group, topic, producer.sent)
    finally:
        stop.set()
        leave(running)
    ends = dict.fromkeys(ALL, 0)
    for partition, offset in producer.acknowledged.values():
        ends[partition] = max(ends[partition], offset + 1)
    assert committed_offsets(muster.bootstrap, kind.group, topic, len(ALL)) == ends, "no lag is left"
    assert {value for member in everybody for value in member.values()} == set(producer.acknowledged)
    history: dict[int, list[int]] = {}
    for commit in commits(muster, kind.group):
        history.setdefault(commit.partition, []).append(commit.offset)
    assert {partition: offsets[-1] for partition, offsets in history.items()} == ends
    assert all(offsets == sorted(offsets) for offsets in history.values()), "a committed offset went back"


def test_a_killed_member_is_replaced_when_its_session_ends(muster: Muster, fresh: Fresh, topic: str) -> None:
    session_timeout_ms = 10_000
    groups = kinds(fresh, None, *CLIENTS)
    survivors = [kind.member(muster, topic, session_timeout_ms=session_timeout_ms) for kind in groups]
    producer = Producer(muster.bootstrap, topic)
    with (
        working(*survivors),
        alone(muster, topic, groups, session_timeout_ms=session_timeout_ms, client_id="short-lived") as processes,
    ):
        for process, survivor in zip(processes, survivors, strict=True):
            assert process.stdout is not None
            until_assigned(survivor, ALL.difference(json.loads(process.stdout.readline())))
        before = [generation(muster, kind.group) for kind in groups]
        for process in processes:
            process.kill()
        producer.send(COUNT)
        producer.flush()
        for kind, survivor in zip(groups, survivors, strict=True):
            until_assigned(survivor, ALL)
            until_committed(muster, kind.group, topic, producer.sent)
            assert assignments(muster, kind.group) == [sorted(ALL)]
            assert set(survivor.values()) == set(producer.acknowledged)
        for kind, number in zip(groups, before, strict=True):
            *others, expiry = rebalances_since(muster, kind.group, number)
            assert (expiry["cause"], expiry["culprit"]["client_id"]) == ("session expired", "short-lived")
            assert generation(muster, kind.group) == number + 1 + len(others)
            # A client may rejoin by itself when it learns of topics that other tests create.
            assert {entry["cause"] for entry in others} <= {"leader rejoined"}


@contextlib.contextmanager
def alone(muster: Muster, topic: str, groups: list[Kind], **config: Any) -> Iterator[list[subprocess.Popen[str]]]:
    """Yield a member of each group in its own process, which writes its assignment to stdout."""
    with contextlib.ExitStack() as stack:
        processes = []
        for kind in groups:
            given = (kind.client.__name__, muster.bootstrap, topic, kind.group, json.dumps(kind.config(**config)))
            command = [sys.executable, "-m", "tests.cluster.consumer_groups.lone_member", *given]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3])
            processes.append(stack.enter_context(process))
            stack.callback(process.kill)
        yield processes
