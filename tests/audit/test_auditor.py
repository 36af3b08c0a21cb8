"""Rounds of the audit with scripted sources: which responded, which were lost, and the findings."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping

import pytest

from muster.actors.audit import commits, sends
from muster.actors.audit.auditor import Auditor, Received, Runs, Steps
from muster.actors.audit.commits import Step
from muster.actors.audit.members import Members
from muster.actors.audit.outbox import Batch, Outbox
from muster.actors.audit.report import Cause, Report
from muster.actors.audit.sends import Run
from muster.actors.log.cumulative_size import CumulativeSizes, TopicPartition
from tests.audit.world import PLACE, World, batches

WAIT_MS = 60_000


class Script:
    """Two gateways and a coordinator; a log of ten batches of ten records and 100 bytes."""

    def __init__(self) -> None:
        self.log = World(batches(10))
        self.boxes: dict[int, Outbox[sends.SendKey, Run]] = {}
        self.silent: set[int] = set()
        self.coordinator: Outbox[commits.CommitKey, Step] = Outbox("c")
        self.lose_responses = False
        self.reports: list[Report] = []
        self.now_ms = 1_000_000
        self.end_offset = 0
        self._lives = 0
        for gateway in (1, 2):
            self.start_gateway(gateway)

    def start_gateway(self, gateway: int) -> None:
        self._lives += 1
        self.boxes[gateway] = Outbox(f"gateway-{gateway}/{self._lives}")

    def send(self, gateway: int, first: int, end: int, group: str | None = "g") -> None:
        topic, partition = PLACE
        self.boxes[gateway].add(
            (group, topic, self.log.topic_id, partition), Run(first, end, (end - first) * 10, self.now_ms)
        )

    def commit(self, before: int | None, offset: int) -> None:
        topic, partition = PLACE
        self.coordinator.add(("g", topic, self.log.topic_id, partition), Step(before, offset, True, self.now_ms))

    def gateways(self) -> Collection[int]:
        return self.boxes.keys()

    def partitions(self) -> Iterable[TopicPartition]:
        return [PLACE]

    async def steps(self, session: str, received: Received) -> Steps:
        return {0: self.coordinator.take(session, received.get(0, 0))}

    async def runs(self, session: str, received: Received) -> Runs:
        found: dict[int, Batch[sends.SendKey, Run]] = {}
        for gateway, box in self.boxes.items():
            if gateway not in self.silent:
                found[gateway] = box.take(session, received.get(gateway, 0))
        return {} if self.lose_responses else found

    async def members(self, groups: Collection[str]) -> Members:
        return dict.fromkeys(groups, ())

    async def cumulative_sizes(
        self, queries: Mapping[TopicPartition, tuple[int, ...]]
    ) -> Mapping[TopicPartition, CumulativeSizes]:
        return {place: self.log.measure(offsets, self.end_offset) for place, offsets in queries.items()}

    async def publish(self, report: Report) -> None:
        self.reports.append(report)


class Rounds:
    def __init__(self, script: Script) -> None:
        self._script = script
        self._auditor = Auditor(script, interval_ms=1, wait_ms=WAIT_MS, now_ms=lambda: script.now_ms)

    def one(self) -> dict[Cause, int]:
        """Return the drift after another round, in which everything pending is old enough to be judged."""
        self._script.now_ms += WAIT_MS
        report = asyncio.run(self._auditor.round())
        assert self._script.reports[-1] is report
        return report.rows[0].drift_bytes if report.rows else {}


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def rounds(script: Script) -> Rounds:
    """Return rounds of which the first has ended, before anything is in the log."""
    made = Rounds(script)
    made.one()
    script.end_offset = 100
    return made


def test_what_two_gateways_sent_is_one_stream(script: Script, rounds: Rounds) -> None:
    script.send(1, 0, 40)
    script.send(2, 40, 100)
    script.commit(None, 100)
    assert rounds.one() == {}
    [row] = script.reports[-1].rows
    assert (row.attributed_bytes, row.implied_bytes) == (1_000, 1_000)


def test_a_response_that_is_lost_on_the_way_counts_once_later(script: Script, rounds: Rounds) -> None:
    script.send(1, 0, 100)
    script.commit(0, 100)
    script.lose_responses = True
    assert rounds.one() == {Cause.WAITING: 1_000}
    assert rounds.one() == {Cause.WAITING: 1_000}
    assert script.reports[-1].incomplete_rounds == 2
    script.lose_responses = False
    assert rounds.one() == {}


def test_while_one_gateway_is_silent_nothing_is_judged(script: Script, rounds: Rounds) -> None:
    script.send(2, 0, 100)
    script.commit(0, 100)
    script.silent = {2}
    rounds.one()
    assert rounds.one() == {Cause.WAITING: 1_000}
    script.silent = set()
    assert rounds.one() == {}


def test_what_a_restarted_gateway_had_not_reported_is_unknown(script: Script, rounds: Rounds) -> None:
    script.send(1, 0, 100)
    script.start_gateway(1)
    script.commit(0, 100)
    rounds.one()
    assert rounds.one() == {Cause.UNKNOWN: 1_000}


def test_what_a_removed_gateway_had_not_reported_is_unknown(script: Script, rounds: Rounds) -> None:
    script.send(2, 0, 100)
    del script.boxes[2]
    script.commit(0, 100)
    rounds.one()
    assert rounds.one() == {Cause.UNKNOWN: 1_000}


def test_a_gateway_that_is_new_has_lost_nothing(script: Script, rounds: Rounds) -> None:
    script.start_gateway(3)
    script.send(3, 0, 100, group=None)
    script.commit(0, 100)
    rounds.one()
    assert rounds.one() == {Cause.LOST: 1_000}


def test_another_process_of_the_audit_begins_anew(script: Script, rounds: Rounds) -> None:
    script.send(1, 0, 100)
    script.commit(None, 50)
    rounds.one()
    successor = Rounds(script)
    successor.one()
    script.commit(50, 100)
    successor.one()
    assert successor.one() == {Cause.UNKNOWN: 500}


def test_a_loss_is_logged_once_and_again_when_it_has_doubled(
    script: Script, rounds: Rounds, caplog: pytest.LogCaptureFixture
) -> None:
    script.commit(None, 0)
    warned = []
    with caplog.at_level(logging.WARNING):
        for first in range(0, 50, 10):
            script.send(1, first, first + 10, group=None)
            script.commit(first, first + 10)
            rounds.one()
            rounds.one()
            warned.append(len(caplog.records))
    assert warned == [1, 2, 2, 3, 3]
    assert "lost 400" in caplog.records[-1].getMessage()
