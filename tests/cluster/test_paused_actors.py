"""Actors that are paused (SIGSTOP) count as dead after actor.liveness.timeout.ms: also those that no client needs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
from confluent_kafka import ConsumerGroupState

from muster.placement.hashing import partition_for
from tests.cluster.consumer_groups.groups import WAIT_S, create, describe, until_read, working
from tests.cluster.consumer_groups.members import ConfluentMember, Producer
from tests.muster_process import Muster, eventually

pytestmark = [pytest.mark.recovery, pytest.mark.cluster, pytest.mark.timeout(240)]

COUNT = 100


@contextlib.contextmanager
def paused(pid: int) -> Iterator[psutil.Process]:
    process = psutil.Process(pid)
    process.suspend()
    try:
        yield process
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()


@contextlib.contextmanager
def sending(producer: Producer) -> Iterator[None]:
    """Under load."""
    stop = threading.Event()
    thread = threading.Thread(target=producer.send_until, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(WAIT_S)


def until_ended(process: psutil.Process) -> None:
    eventually(
        process.is_running,
        lambda running: not running or process.status() == psutil.STATUS_ZOMBIE,
        f"the end of pid {process.pid}",
    )


def epoch(muster: Muster) -> int:
    found: int = json.loads(muster.cli("status", "--json"))["controller_epoch"]
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


def test_a_paused_reconciler_is_replaced(muster: Muster, record_property: Any) -> None:
    with paused(muster.actors()["reconciler"]["pid"]) as reconciler:
        paused_s = time.monotonic()
        until_ended(reconciler)
        muster.until_back("reconciler", reconciler.pid)
        measured(record_property, "reconciler paused: another process serves", paused_s)
