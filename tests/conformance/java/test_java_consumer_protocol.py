"""Java consumers with ``group.protocol=consumer`` (KIP-848), and Kafka's tools, on Muster as on Apache Kafka."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.conformance.artifacts import Kafka
from tests.conformance.clients import Partition, Tools, VerifiableConsumer, table, wait_until
from tests.conformance.topics import create_topic, fill, now_ms

PARTITIONS = 4
TERMINATED = 128 + signal.SIGTERM

StartConsumer = Callable[..., VerifiableConsumer]


@pytest.fixture
def topic(bootstrap: str, fresh: Callable[[str], str]) -> str:
    name = fresh("consumer-protocol")
    create_topic(bootstrap, name, PARTITIONS)
    for partition in range(PARTITIONS):
        fill(bootstrap, name, partition, [now_ms()] * 3)
    return name


@pytest.fixture
def running() -> Iterator[ExitStack]:
    """Everything that is entered here is stopped at the end."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def consumer(bootstrap: str, release: Kafka, topic: str, running: ExitStack) -> StartConsumer:
    """Return a function that starts a member of the group with the topic's name, and waits until its JVM is up."""

    def start(name: str, protocol: str = "consumer", **options: str) -> VerifiableConsumer:
        options = {"group_protocol": protocol, **options}
        member = VerifiableConsumer(release, bootstrap, name, topic=topic, group=topic, **options)
        running.enter_context(member)
        wait_until(lambda: member.named("startup_complete"), f"{name} is up", member)
        return member

    return start


def share(topic: str, *members: VerifiableConsumer, timeout_s: float = 60) -> None:
    """Wait until these members own all partitions, equally many each, and none twice."""
    every: set[Partition] = {(topic, partition) for partition in range(PARTITIONS)}

    def settled() -> bool:
        held = [member.assigned() for member in members]
        fair = {len(each) for each in held} == {PARTITIONS // len(members)}
        return fair and set().union(*held) == every

    wait_until(settled, f"{[member.name for member in members]} share {topic}", *members, timeout_s=timeout_s)


def test_members_come_and_go(topic: str, consumer: StartConsumer, bootstrap: str, release: Kafka) -> None:
    first = consumer("first")
    share(topic, first)
    second = consumer("second", group_remote_assignor="range")
    share(topic, first, second)
    tools = Tools(release, bootstrap)
    described = table(tools.consumer_groups("--describe", "--group", topic, "--members"))
    assert sorted(row["#PARTITIONS"] for row in described) == ["2", "2"]
    (state,) = table(tools.consumer_groups("--describe", "--group", topic, "--state"))
    assert (state["STATE"], state["#MEMBERS"]) == ("Stable", "2")
    assert topic in tools.consumer_groups("--list", "--type", "consumer")
    assert topic not in tools.consumer_groups("--list", "--type", "classic")
    assert second.stop() == TERMINATED
    share(topic, first)
    wait_until(first.committed, "all that was read is committed", first)
    offsets = table(tools.consumer_groups("--describe", "--group", topic))
    assert {row["LAG"] for row in offsets} == {"0"}


def test_a_static_member_returns(topic: str, consumer: StartConsumer) -> None:
    other, restarted = (consumer(name, group_instance_id=name) for name in ("one", "two"))
    share(topic, other, restarted)
    held, seen = restarted.assigned(), len(other.named("partitions_revoked"))
    assert restarted.stop() == TERMINATED
    again = consumer("two again", group_instance_id="two")
    share(topic, other, again)
    assert again.assigned() == held
    assert len(other.named("partitions_revoked")) == seen


def test_a_group_changes_its_protocol_and_back(
    topic: str, consumer: StartConsumer, bootstrap: str, release: Kafka
) -> None:
    """Members with the classic protocol are replaced one by one, while the group consumes, and come back."""
    old = [consumer(f"classic {number}", "classic") for number in range(2)]
    share(topic, *old)
    new = consumer("new")
    assert old.pop().stop() == TERMINATED
    share(topic, *old, new)
    tools = Tools(release, bootstrap)
    assert topic in tools.consumer_groups("--list", "--type", "consumer")
    assert new.stop() == TERMINATED
    share(topic, *old)
    assert topic in tools.consumer_groups("--list", "--type", "classic")
