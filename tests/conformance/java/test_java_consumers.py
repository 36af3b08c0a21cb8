"""Java consumers with ``kafka-verifiable-consumer``: rolling restarts, cooperative rebalances, static membership."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.conformance.artifacts import Kafka
from tests.conformance.clients import Partition, VerifiableConsumer, VerifiableProducer, wait_until
from tests.conformance.topics import committed, create_topic, ends, fill, now_ms
from tests.muster_process import Muster

PARTITIONS = 6
SESSION_MS = "10000"
PATIENT_MS = "120000"
"""More than a restart takes, on a busy machine, too."""
TERMINATED = 128 + signal.SIGTERM
"""Exit code of a JVM that ran its shutdown hooks at SIGTERM."""
COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"

StartConsumer = Callable[..., VerifiableConsumer]


@pytest.fixture
def topic(muster: Muster, fresh: Callable[[str], str]) -> str:
    name = fresh("topic")
    create_topic(muster.bootstrap, name, PARTITIONS)
    return name


@pytest.fixture
def running() -> Iterator[ExitStack]:
    """Everything that is entered here is stopped at the end."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def consumer(muster: Muster, release: Kafka, topic: str, running: ExitStack) -> StartConsumer:
    """Return a function that starts a member of the group with the topic's name, and waits until its JVM is up."""

    def start(name: str, **options: str) -> VerifiableConsumer:
        options = {"session_timeout": SESSION_MS, **options}
        member = VerifiableConsumer(release, muster.bootstrap, name, topic=topic, group=topic, **options)
        running.enter_context(member)
        wait_until(lambda: member.named("startup_complete"), f"{name} is up", member)
        return member

    return start


def all_of(topic: str) -> set[Partition]:
    return {(topic, partition) for partition in range(PARTITIONS)}


def share(topic: str, *members: VerifiableConsumer) -> None:
    """Wait until these members own all partitions, equally many each, and none twice."""

    def settled() -> bool:
        held = [member.assigned() for member in members]
        fair = {len(each) for each in held} == {PARTITIONS // len(members)}
        return fair and set().union(*held) == all_of(topic)

    wait_until(settled, f"{[member.name for member in members]} share {topic}", *members)


def each_reads(*members: VerifiableConsumer) -> None:
    """Wait until each of them has read one more record."""
    before = [len(member.values()) for member in members]
    wait_until(
        lambda: all(len(member.values()) > count for member, count in zip(members, before, strict=True)),
        "each member reads",
        *members,
    )


def test_rolling_restart_loses_nothing(
    muster: Muster, release: Kafka, topic: str, consumer: StartConsumer, running: ExitStack
) -> None:
    """Each of three members is stopped and restarted in turn while a producer runs."""
    members = [consumer(f"member-{number}", group_protocol="classic") for number in range(3)]
    share(topic, *members)
    producer = VerifiableProducer(release, muster.bootstrap, topic, throughput=200, keys=100)
    running.enter_context(producer)
    each_reads(*members)
    read: list[str] = []
    for number in range(3):
        stopped, others = members[number], [member for member in members if member is not members[number]]
        assert stopped.stop() == TERMINATED, stopped
        assert stopped.named("shutdown_complete")
        read += stopped.values()
        share(topic, *others)
        members[number] = consumer(f"member-{number}-again", group_protocol="classic")
        share(topic, *members)
        each_reads(*members)
    assert producer.stop() == TERMINATED, producer
    assert producer.named("producer_send_error") == []
    acknowledged = producer.acknowledged()

    def lost() -> set[str]:
        return acknowledged.difference(read, *[member.values() for member in members])

    wait_until(lambda: not lost(), "all that was acknowledged is read", *members)
    wait_until(lambda: all(member.committed() for member in members), "all that was read is committed", *members)
    for member in members:
        assert member.stop() == TERMINATED, member
    written = ends(muster.bootstrap, topic, PARTITIONS)
    assert sum(written.values()) >= len(acknowledged)
    assert committed(muster.bootstrap, topic) == written


def test_cooperative_sticky_keeps_what_does_not_move(topic: str, consumer: StartConsumer, muster: Muster) -> None:
    """A third member gets the partitions that two others give up; those that they keep are never revoked."""
    for partition in range(PARTITIONS):
        fill(muster.bootstrap, topic, partition, [now_ms()] * 3)
    first, second = (consumer(name, assignment_strategy=COOPERATIVE) for name in ("first", "second"))
    share(topic, first, second)
    held, revoked = [first.assigned(), second.assigned()], [len(first.revoked()), len(second.revoked())]
    third = consumer("third", assignment_strategy=COOPERATIVE)
    share(topic, first, second, third)
    assert third.revoked() == set()
    for member, before, already in zip((first, second), held, revoked, strict=True):
        assert member.assigned() < before
        taken = [event for event in member.named("partitions_revoked") if event["partitions"]]
        given_up = {(p["topic"], p["partition"]) for p in taken[-1]["partitions"]}
        assert given_up == before - member.assigned()
        assert len(member.revoked()) <= already + len(given_up)


def test_restart_of_a_static_member_is_no_rebalance(topic: str, consumer: StartConsumer, muster: Muster) -> None:
    """Within its session it gets its partitions of the same generation again; the other member notices nothing."""
    for partition in range(PARTITIONS):
        fill(muster.bootstrap, topic, partition, [now_ms()] * 3)
    other, restarted = (consumer(name, group_instance_id=name, session_timeout=PATIENT_MS) for name in ("one", "two"))
    share(topic, other, restarted)
    held, seen = restarted.assigned(), len(other.named("partitions_revoked"))
    (generation,) = wait_until(
        lambda: restarted.generations()[-1:] == other.generations()[-1:] and restarted.generations()[-1:],
        "both are of one generation, according to their logs, too",
        other,
        restarted,
    )
    assert restarted.stop() == TERMINATED
    again = consumer("two again", group_instance_id="two", session_timeout=PATIENT_MS)
    share(topic, other, again)
    assert again.assigned() == held
    assert wait_until(again.generations, "its log says so, too", again) == [generation]
    assert other.generations()[-1] == generation
    assert len(other.named("partitions_revoked")) == seen
