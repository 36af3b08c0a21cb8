"""The audit of a gateway without Ray: the same sources, queried in its event loop instead of over Ray calls."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping

from muster.actors.audit.auditor import Auditor, Received, Runs, Steps
from muster.actors.audit.members import Members
from muster.actors.audit.report import Report, Row
from muster.actors.log.cumulative_size import CumulativeSizes, TopicPartition
from tests.gateway.serving import Serving

WAIT_MS = 1_000


class LocalSources:
    """An :class:`muster.actors.audit.auditor.Sources` of one gateway."""

    def __init__(self, full: Serving) -> None:
        assert full.actors is not None
        self._full = full
        self._actors = full.actors

    def gateways(self) -> Collection[int]:
        return {self._full.gateway.id}

    def partitions(self) -> Iterable[TopicPartition]:
        topics = self._full.gateway.view.topics.values()
        return [(topic.name, each) for topic in topics if not topic.internal for each in range(topic.partitions)]

    async def steps(self, session: str, received: Received) -> Steps:
        return {each: steps.take(session, received.get(each, 0)) for each, steps in self._actors.steps.items()}

    async def runs(self, session: str, received: Received) -> Runs:
        controller, number = self._full.controller, self._full.gateway.id
        await asyncio.to_thread(controller.stores[number].flush)
        return {number: controller.sends[number].take(session, received.get(number, 0))}

    async def members(self, groups: Collection[str]) -> Members:
        gateway = self._full.gateway
        return {
            group: self._actors.members[gateway.partition_of(group)].of([group], gateway.now_ms())[group]
            for group in groups
        }

    async def cumulative_sizes(
        self, queries: Mapping[TopicPartition, tuple[int, ...]]
    ) -> Mapping[TopicPartition, CumulativeSizes]:
        view, found = self._full.gateway.view, {}
        for index, service in self._actors.logs.items():
            of_log = [
                (at, offsets) for at, offsets in queries.items() if view.log_of(view.topics[at[0]], at[1]) == index
            ]
            found.update(await service.cumulative_sizes(of_log))
        return found

    async def publish(self, report: Report) -> None:
        self._full.gateway.audit_report = report


class LocalAudit:
    """Rounds on demand, with their own clock."""

    def __init__(self, full: Serving) -> None:
        self._full = full
        self._now_ms = full.gateway.now_ms()
        self._auditor = Auditor(LocalSources(full), interval_ms=1, wait_ms=WAIT_MS, now_ms=lambda: self._now_ms)

    def round(self) -> Report:
        self._now_ms += 1
        report: Report = self._full.run(self._auditor.round())
        return report

    def judged(self) -> Report:
        """Pending attributions end without a result, and gaps have waited long enough."""
        self.round()
        self._full.run(self._settle())
        self.round()
        self._now_ms += WAIT_MS
        return self.round()

    async def _settle(self) -> None:
        self._full.gateway.account.settle(self._full.gateway.now_ms() + 3_600_000)

    def row(self, group: str) -> Row:
        """Return the value of the group's only partition."""
        [row] = [row for row in self._full.gateway.audit_report.rows if row.group == group]
        return row
