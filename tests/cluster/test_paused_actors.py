"""Actors that are paused (SIGSTOP) count as dead after actor.liveness.timeout.ms: also those that no client needs."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
from confluent_kafka import ConsumerGroupState

from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.hashing import partition_for
from muster.placement.view import Topic
from tests.cluster.consumer_groups.groups import PARTITIONS, WAIT_S, create, describe, sending, until_read, working
from tests.cluster.consumer_groups.members import ConfluentMember, Producer
from tests.gateway.apis.test_data_apis import PRODUCE, produce_body
from tests.gateway.group_client import UNKNOWN_ID
from tests.gateway.group_client import Member as GroupClient
from tests.gateway.serving import Client
from tests.log.support import client_batch
from tests.muster_process import Muster, eventually

pytestmark = pytest.mark.ring(name="failover")

COUNT = 100
DEAD_S = 10.0
"""actor.liveness.timeout.ms: what takes less was not waiting for another process to serve."""
BY_NAME, PRODUCE_BY_NAME = 8, 9
"""OffsetCommit and Produce of these versions name topics."""
RETRIABLE = {
    ErrorCode.none,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
}


@contextlib.contextmanager
def paused(pid: int) -> Iterator[psutil.Process]:
    process = psutil.Process(pid)
    process.suspend()
    try:
        yield process
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()


def until_ended(process: psutil.Process) -> None:
    eventually(
        process.is_running,
        lambda running: not running or process.status() == psutil.STATUS_ZOMBIE,
        f"the end of pid {process.pid}",
    )


def epoch(muster: Muster) -> int:
    found: int = muster.status()["controller_epoch"]
    return found


def measured(record_property: Callable[[str, object], None], what: str, began_s: float) -> None:
    seconds = round(time.monotonic() - began_s, 2)
    record_property(what, seconds)
    print(f"{what}: {seconds} s")


def test_a_paused_controller_is_replaced(muster: Muster, fresh: Callable[[str], str], record_property: Any) -> None:
    """A coordinator that is killed meanwhile fails over then, too, and no member notices."""
    topic, group = fresh("paused"), fresh("g")
    create(muster, topic)
    members = [ConfluentMember(muster.bootstrap, topic, group) for _ in range(2)]
    producer = Producer(muster.bootstrap, topic)
    with working(*members), sending(producer):
        until_read(members, COUNT)
        stable = [(member.identity(), member.rebalances, frozenset(member.assigned)) for member in members]
        actors, epoch_before = muster.actors(), epoch(muster)
        coordinator = f"offsets-{partition_for(group, 50)}"
        with paused(actors["controller"]["pid"]) as controller:
            paused_s = time.monotonic()
            os.kill(actors[coordinator]["pid"], signal.SIGKILL)
            until_ended(controller)
            measured(record_property, "controller paused: it is ended", paused_s)
            create(muster, fresh("made-after"))
            measured(record_property, "controller paused: a topic is created", paused_s)
        read = sum(len(member.read) for member in members)
        until_read(members, read + COUNT)
        measured(record_property, "controller paused: a coordinator killed meanwhile takes commits", paused_s)
        muster.until_back(coordinator, actors[coordinator]["pid"])
        assert [(member.identity(), member.rebalances, frozenset(member.assigned)) for member in members] == stable
        assert describe(muster, group).state is ConsumerGroupState.STABLE
    assert producer.failed == []
    assert epoch(muster) == epoch_before + 1, "replaced once"


def test_a_gateway_that_is_killed_meanwhile_is_served_at_its_address(
    muster: Muster, fresh: Callable[[str], str]
) -> None:
    """Its next process cannot start without the controller. The standby does not need it, except for producer ids."""
    topic = fresh("t")
    create(muster, topic)
    actors = muster.actors()
    gateway = actors["gateway-1"]
    with paused(actors["controller"]["pid"]) as controller:
        os.kill(gateway["pid"], signal.SIGKILL)
        producer = Producer(gateway["address"], topic, **{"enable.idempotence": False})
        producer.send(1)
        producer.flush()
        assert len(producer.acknowledged) == 1
        assert controller.status() == psutil.STATUS_STOPPED
        producer.send(COUNT - 1)
        producer.flush()
        assert producer.failed == []
        assert len(producer.acknowledged) == COUNT
        until_ended(controller)
    muster.until_back("gateway-1", gateway["pid"])


def test_a_paused_reconciler_is_replaced(muster: Muster, record_property: Any) -> None:
    with paused(muster.actors()["reconciler"]["pid"]) as reconciler:
        paused_s = time.monotonic()
        until_ended(reconciler)
        muster.until_back("reconciler", reconciler.pid)
        measured(record_property, "reconciler paused: another process serves", paused_s)


def test_a_paused_log_actor_holds_up_only_its_own_partitions(
    muster: Muster, fresh: Callable[[str], str], record_property: Any
) -> None:
    """A connection's responses come in order, so a request that waits for one actor delays those to all others."""
    topic = fresh("halves")
    create(muster, topic)
    partitions = range(PARTITIONS)
    named = Topic(name=topic, topic_id=UNKNOWN_ID, partitions=PARTITIONS)

    def responses(client: Client) -> Iterator[ErrorCode]:
        for partition in partitions:
            client.request(PRODUCE, PRODUCE_BY_NAME, produce_body((named, partition, client_batch())))
        for _ in partitions:
            response = client.response(PRODUCE, PRODUCE_BY_NAME)
            yield response.responses[0].partition_responses[0].error_code

    def produce(client: Client) -> list[ErrorCode]:
        return [*responses(client)]

    port = int(muster.ready["bootstrap"][0].rpartition(":")[2])
    with Client(port) as client, Client(port) as other:
        eventually(lambda: produce(client), lambda errors: set(errors) == {ErrorCode.none}, "all are open", WAIT_S)
        with paused(muster.actors()["log-0"]["pid"]) as log_actor:
            began_s = time.monotonic()
            outstanding, errors = responses(client), list[ErrorCode]()
            while ErrorCode.request_timed_out not in errors:
                errors.append(next(outstanding))
            again = produce(other)  # at once: soon, another process serves
            errors += outstanding
            seconds = time.monotonic() - began_s
            until_ended(log_actor)
        muster.until_back("log-0", log_actor.pid)
        eventually(lambda: produce(client), lambda errors: set(errors) == {ErrorCode.none}, "all are open", WAIT_S)
    measured(record_property, "log actor paused: all partitions are written again", began_s)
    print(f"log actor paused: all responses after {seconds:.2f} s, {errors}, then {again}")
    record_property("log actor paused: all responses", round(seconds, 2))
    assert set(errors) == {ErrorCode.none, ErrorCode.request_timed_out}
    assert set(again) == {ErrorCode.none, ErrorCode.not_leader_or_follower}, "not sent: it may be repeated safely"
    assert seconds < DEAD_S


def test_a_paused_coordinator_holds_no_request(
    muster: Muster, fresh: Callable[[str], str], record_property: Any
) -> None:
    topic = fresh("silent")
    create(muster, topic)
    client = Client(int(muster.ready["bootstrap"][0].rpartition(":")[2]))
    group = GroupClient(client, fresh("without-members"), BY_NAME)
    times: list[float] = []
    errors: list[ErrorCode] = []

    def commit() -> ErrorCode:
        began_s = time.monotonic()
        ((_, _, error),) = group.commit((Topic(name=topic, topic_id=UNKNOWN_ID, partitions=1), 0, 7))
        times.append(time.monotonic() - began_s)
        errors.append(error)
        return error

    eventually(commit, lambda error: error is ErrorCode.none, "a commit", WAIT_S)
    times.clear()
    actor = f"offsets-{partition_for(group.group, 50)}"
    with paused(muster.actors()[actor]["pid"]) as coordinator:
        eventually(commit, lambda error: error is ErrorCode.none, "a commit", WAIT_S)
        until_ended(coordinator)
    print(f"a coordinator is paused: {len(times)} commits, the slowest took {max(times):.2f} s")
    record_property("slowest commit", round(max(times), 2))
    assert set(errors) <= RETRIABLE
    assert max(times) < DEAD_S
