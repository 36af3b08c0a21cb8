"""A standby serves for a dead log actor, and is replaced in turn: producers and consumers lose and repeat nothing."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.cluster.consumer_groups.groups import PARTITIONS, WAIT_S, create
from tests.cluster.consumer_groups.members import Producer, everything
from tests.cluster.test_standby import standby_of, times_taken_over, until_taken_over
from tests.muster_process import Muster, eventually

pytestmark = pytest.mark.ring(name="failover")

VICTIM = "log-0"
_PAUSE_S = 0.005


class Sending:
    """A producer that sends to all partitions until it is stopped."""

    def __init__(self, muster: Muster, topic: str) -> None:
        self.muster = muster
        self.topic = topic
        self.producer = Producer(muster.bootstrap, topic)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def _send(self) -> None:
        while not self._is_over.wait(_PAUSE_S):
            self.producer.send(1)

    def go_on(self) -> None:
        """Until what is sent from now on is acknowledged."""
        count = self.producer.sent + PARTITIONS * 2
        eventually(lambda: len(self.producer.acknowledged), lambda now: now >= count, "more is acknowledged", WAIT_S)

    def check(self) -> None:
        """Stop; every record is in the topic once, at its acknowledged offset."""
        self._is_over.set()
        self._thread.join(WAIT_S)
        self.producer.flush()
        records = everything(self.muster.bootstrap, self.topic, PARTITIONS, self.producer.sent)
        assert len(records) == self.producer.sent
        self.producer.check(records)


@pytest.fixture
def sending(muster: Muster, fresh: Callable[[str], str]) -> Iterator[Sending]:
    topic = fresh("log-standby")
    create(muster, topic)
    eventually(lambda: standby_of(muster)["state"], lambda state: state == "alive", "a standby", WAIT_S)
    sending = Sending(muster, topic)
    sending.go_on()
    yield sending
    sending.check()
    eventually(
        lambda: {each["state"] for each in muster.actors().values()}, lambda all_: all_ == {"alive"}, "all", WAIT_S
    )


def until_itself(muster: Muster, old_pid: int) -> int:
    """Until the actor serves in a process of its own again; its pid."""
    back = eventually(
        lambda: muster.actors()[VICTIM],
        lambda actor: actor["state"] == "alive" and actor["pid"] != old_pid and actor["stand_in"] is None,
        "it serves itself",
        WAIT_S,
    )
    return int(back["pid"])


def test_a_standby_serves_until_the_log_actor_is_back(muster: Muster, sending: Sending) -> None:
    pid = muster.actors()[VICTIM]["pid"]
    for _ in range(3):
        before = times_taken_over(muster, VICTIM)
        os.kill(pid, signal.SIGKILL)
        until_taken_over(muster, VICTIM, before)
        sending.go_on()
        pid = until_itself(muster, pid)
        sending.go_on()


@pytest.mark.parametrize("next_victim", ["standby-1", "controller"])
def test_the_standby_or_the_controller_dies_meanwhile(muster: Muster, sending: Sending, next_victim: str) -> None:
    actors = muster.actors()
    before = times_taken_over(muster, VICTIM)
    os.kill(actors[VICTIM]["pid"], signal.SIGKILL)
    until_taken_over(muster, VICTIM, before)
    os.kill(actors[next_victim]["pid"], signal.SIGKILL)
    sending.go_on()
    until_itself(muster, actors[VICTIM]["pid"])
    sending.go_on()


def test_a_log_actor_that_hangs_is_replaced(muster: Muster, sending: Sending) -> None:
    """Longer than actor.liveness.timeout.ms: then a standby serves, and the paused process is ended."""
    pid = muster.actors()[VICTIM]["pid"]
    process = psutil.Process(pid)
    os.kill(pid, signal.SIGSTOP)
    try:
        sending.go_on()
        eventually(
            process.is_running,
            lambda running: not running or process.status() == psutil.STATUS_ZOMBIE,
            "its end",
            WAIT_S,
        )
    finally:
        if process.is_running():
            os.kill(pid, signal.SIGCONT)
    until_itself(muster, pid)
    sending.go_on()
