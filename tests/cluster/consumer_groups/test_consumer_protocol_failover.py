"""Groups of KIP-848 whose offsets actors are killed or paused while members read: all of them continue as they were."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from muster.actors.group.codec.adapters import CONSUMER_GROUP_DESCRIBE
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.hashing import partition_for
from tests.cluster.consumer_groups.groups import WAIT_S, create, leave, sending, until_read, until_settled
from tests.cluster.consumer_groups.members import ConfluentMember, Member, Producer
from tests.cluster.test_attribution import book, pending, scrape
from tests.cluster.test_paused_actors import paused, until_ended
from tests.gateway.serving import Client
from tests.muster_process import Muster, eventually

pytestmark = pytest.mark.ring(name="failover")

COUNT = 200
CONSUMER = {"group.protocol": "consumer"}
CLASSIC = {"partition.assignment.strategy": "cooperative-sticky", "heartbeat.interval.ms": 500}
NO_CAUSE = ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH", "ILLEGAL_GENERATION")
"""Errors by which a member learns that it is none any more, or that its epoch is not the coordinator's."""


class Described(NamedTuple):
    """Group as its coordinator describes it."""

    state: str
    epoch: int
    assignment_epoch: int
    members: dict[str, tuple[int, int, Any]]
    """By member id: epoch, type (1: consumer, 0: classic), and partitions."""


class Watched:
    """A group with two members, and what the coordinator says of it."""

    def __init__(self, muster: Muster, topic: str, group: str, *protocols: dict[str, Any]) -> None:
        self.muster, self.topic, self.group = muster, topic, group
        self.actor = actor_of(group)
        self.members: list[Member] = []
        for config in protocols:
            self.join(config)
            until_settled(self.members)

    def join(self, config: dict[str, Any]) -> None:
        member = ConfluentMember(self.muster.bootstrap, self.topic, self.group, **{"client.id": self.group, **config})
        self.members.append(member)
        member.start()

    def described(self) -> Described:
        with Client(int(self.muster.ready["bootstrap"][0].rpartition(":")[2])) as client:
            body = {"group_ids": [self.group], "include_authorized_operations": False}
            (found,) = client.exchange(CONSUMER_GROUP_DESCRIBE, 1, body).groups
        assert found.error_code is ErrorCode.none
        members = {each.member_id: (each.member_epoch, each.member_type, each.assignment) for each in found.members}
        return Described(found.group_state, found.group_epoch, found.assignment_epoch, members)

    def until_stable(self) -> Described:
        until_settled(self.members)
        return eventually(self.described, lambda found: found.state == "Stable", f"{self.group} is Stable", WAIT_S)

    def seen(self) -> list[tuple[Any, ...]]:
        """Return its members' own view of it."""
        return [(each.identity(), each.rebalances, frozenset(each.assigned)) for each in self.members]

    def at_rest(self) -> tuple[list[tuple[Any, ...]], Described]:
        """Return the views of its members and its coordinator, once the last assignment has reached the application."""
        found = self.until_stable()
        self.until_more_is_read()
        return self.seen(), found

    def until_more_is_read(self) -> None:
        """Until its members have read more, and committed it."""
        until_read(self.members, len(self.read()) + COUNT)

    def read(self) -> set[tuple[int, int]]:
        return {(partition, offset) for member in self.members for partition, offset, _ in list(member.read)}

    def check_refusals(self) -> None:
        """Check that commits fail while no coordinator serves, and only therefore."""
        errors = [str(error) for member in self.members for error in [*member.refused, *member.errors]]  # type: ignore[attr-defined]
        assert not [error for error in errors if any(name in error for name in NO_CAUSE)]


@contextlib.contextmanager
def watched(muster: Muster, topic: str, names: Callable[[str], str]) -> Iterator[list[Watched]]:
    """Yield a group of consumer members, and one with a member of either protocol, in different actors."""
    groups: list[Watched] = []
    try:
        for protocols in ((CONSUMER, CONSUMER), (CLASSIC, CONSUMER)):
            taken = {each.actor for each in groups}
            group = next(
                name for name in iter(lambda: names("g"), "") if f"offsets-{partition_for(name, 50)}" not in taken
            )
            groups.append(Watched(muster, topic, group, *protocols))
        yield groups
    finally:
        leave([member for each in groups for member in each.members])


@pytest.mark.parametrize("fault", ["killed", "paused"])
def test_members_keep_ids_epochs_and_partitions(muster: Muster, fresh: Callable[[str], str], fault: str) -> None:
    topic = fresh("t")
    create(muster, topic)
    producer = Producer(muster.bootstrap, topic)
    with watched(muster, topic, fresh) as groups:
        with sending(producer):
            for each in groups:
                each.until_more_is_read()
            before = [each.at_rest() for each in groups]
            for each in groups:
                strike(muster, each.actor, fault)
                each.until_more_is_read()
            assert [each.at_rest() for each in groups] == before
            for each in groups:
                each.check_refusals()
        producer.drain()
        check_all_is_read(producer, groups)
        check_attribution(muster, topic, groups)


@pytest.mark.parametrize("fault", ["killed", "paused"])
def test_a_reconciliation_continues_elsewhere(muster: Muster, fresh: Callable[[str], str], fault: str) -> None:
    """A third member is known, and has nothing yet: its partitions are still to be given up."""
    topic = fresh("t")
    create(muster, topic)
    producer = Producer(muster.bootstrap, topic)
    with watched(muster, topic, fresh) as groups:
        with sending(producer):
            for each in groups:
                before = each.until_stable()
                each.join(CONSUMER)
                known = eventually(each.described, lambda found: len(found.members) == 3, "the third is known", WAIT_S)
                strike(muster, each.actor, fault)
                after = each.until_stable()
                assert before.members.keys() < known.members.keys() == after.members.keys()
                assert before.epoch < known.epoch == after.epoch == after.assignment_epoch
                each.until_more_is_read()
                each.check_refusals()
        producer.drain()
        check_all_is_read(producer, groups)
        check_attribution(muster, topic, groups)


def actor_of(group: str) -> str:
    return f"offsets-{partition_for(group, 50)}"


def strike(muster: Muster, actor: str, fault: str) -> None:
    pid = muster.actors()[actor]["pid"]
    if fault == "killed":
        os.kill(pid, signal.SIGKILL)
    else:
        with paused(pid) as process:
            until_ended(process)
    muster.until_back(actor, pid)


def check_all_is_read(producer: Producer, groups: list[Watched]) -> None:
    """By each of the groups."""
    assert producer.failed == []
    written = {*producer.acknowledged.values()}
    for each in groups:
        eventually(each.read, lambda read: read == written, f"{each.group} has read everything", WAIT_S)


def check_attribution(muster: Muster, topic: str, groups: list[Watched]) -> None:
    """Every message went to one of the groups, and to each of them as often as its members read it, at least."""
    waiting = lambda: pending(scrape(muster), topic, "messages")  # noqa: E731
    eventually(waiting, lambda found: not found, f"none of {[each.members for each in groups]} is pending", WAIT_S)
    samples = scrape(muster)
    sent = book(samples, "muster_group_fetch_messages_total", "group")
    others = book(samples, "muster_unattributed_fetch_messages_total", "reason")
    assert {key[3] for key in sent if key[1] == topic} == {each.group for each in groups}
    assert not [key for key in others if key[1] == topic]
    for each in groups:
        assert sum(amount for key, amount in sent.items() if key[1] == topic and key[3] == each.group) >= len(
            each.read()
        )
