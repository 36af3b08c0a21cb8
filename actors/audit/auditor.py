"""The audit in rounds: query coordinators, gateways and logs, compare, report to gateways."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from muster.actors.audit import commits, sends
from muster.actors.audit.books import Books
from muster.actors.audit.commits import Step
from muster.actors.audit.members import Members
from muster.actors.audit.outbox import Batch
from muster.actors.audit.report import UNEXPLAINED, Report, Row
from muster.actors.audit.sends import Run
from muster.actors.log.cumulative_size import CumulativeSizes, TopicPartition

log = logging.getLogger(__name__)

Received = Mapping[int, int]
"""Number of the last received batch, by offsets partition or gateway."""
Steps = Mapping[int, Batch[commits.CommitKey, Step]]
Runs = Mapping[int, Batch[sends.SendKey, Run]]


class Sources(Protocol):
    """Sources of the audit. One that does not respond is missing in a result; nothing is raised for it."""

    def gateways(self) -> Collection[int]:
        """Ids of the gateways that serve."""

    def partitions(self) -> Iterable[TopicPartition]:
        """Return the partitions of all topics that can be fetched."""

    async def steps(self, session: str, received: Received) -> Steps:
        """Return steps from the coordinators, by offsets partition."""

    async def runs(self, session: str, received: Received) -> Runs:
        """Return runs from the gateways: everything sent until now with its final attribution."""

    async def members(self, groups: Collection[str]) -> Members:
        """When the groups had members, from their coordinators."""

    async def cumulative_sizes(
        self, queries: Mapping[TopicPartition, tuple[int, ...]]
    ) -> Mapping[TopicPartition, CumulativeSizes]:
        """Cumulative sizes from the log actors."""

    async def publish(self, report: Report) -> None:
        """Send the report to all gateways."""


class Auditor:
    """``wait_ms``: how long attributions may be pending. ``now_ms``: ms since the epoch. For one event loop."""

    def __init__(self, sources: Sources, *, interval_ms: int, wait_ms: int, now_ms: Callable[[], int]) -> None:
        self._sources = sources
        self._interval_s = interval_ms / 1000
        self._now_ms = now_ms
        self._books = Books(wait_ms)
        self._session = uuid.uuid4().hex
        self._coordinators: dict[int, int] = {}
        self._gateways: dict[int, tuple[str, int]] = {}
        """Life, and number of the last received batch."""
        self._warned: Counter[str] = Counter()
        self.report = Report()
        """The report of the last round."""

    async def run(self) -> None:
        """Audit until cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self.round()
            except Exception:
                log.exception("a round of the audit failed; trying again in %g s", self._interval_s)

    async def round(self) -> Report:
        """Compare once, and report."""
        now_ms = self._now_ms()
        steps = await self._sources.steps(self._session, self._coordinators)
        # After the commits: then what was sent includes what was committed.
        runs = await self._sources.runs(self._session, {each: number for each, (_, number) in self._gateways.items()})
        for partition, commit_batch in steps.items():
            self._coordinators[partition] = commit_batch.number
            self._books.take_steps(commit_batch.entries, now_ms)
        self._take_runs(runs, now_ms)
        complete = runs.keys() >= set(self._sources.gateways())
        in_doubt = self._books.in_doubt()
        members = await self._sources.members(in_doubt) if in_doubt else {}
        queries = self._books.queries(self._sources.partitions())
        cumulative_sizes = await self._sources.cumulative_sizes(queries) if queries else {}
        await asyncio.to_thread(self._books.settle, cumulative_sizes, members, now_ms, complete=complete)
        rows = await asyncio.to_thread(self._books.rows)
        self.report = Report(
            rounds=self.report.rounds + 1,
            incomplete_rounds=self.report.incomplete_rounds + (not complete),
            left_out=self._books.left_out,
            at_ms=now_ms,
            rows=tuple(rows),
        )
        self._warn(rows)
        await self._sources.publish(self.report)
        return self.report

    def _take_runs(self, runs: Runs, now_ms: int) -> None:
        serving = set(self._sources.gateways()) | runs.keys()
        for gone in self._gateways.keys() - serving:
            del self._gateways[gone]
            self._books.lost_count()
        for gateway, batch in runs.items():
            life, _ = self._gateways.get(gateway, (None, 0))
            if life != batch.life and (life is not None or not batch.whole):
                self._books.lost_count()
            self._gateways[gateway] = batch.life, batch.number
            self._books.take_runs(batch.entries, now_ms)

    def _warn(self, rows: list[Row]) -> None:
        """Log a warning once per group, and again when its unexplained bytes have doubled."""
        sizes: Counter[str] = Counter()
        causes: dict[str, Counter[str]] = {}
        for row in rows:
            if row.unexplained_bytes:
                sizes[row.group] += row.unexplained_bytes
                causes.setdefault(row.group, Counter()).update(
                    {cause.value: row.drift_bytes.get(cause, 0) for cause in UNEXPLAINED}
                )
        for group, size in sizes.items():
            if size >= 2 * self._warned[group]:
                self._warned[group] = size
                log.warning(
                    "group %r: %d bytes are counted wrongly, or missing, as its commits show (%s)",
                    group,
                    size,
                    ", ".join(f"{cause} {count}" for cause, count in causes[group].items() if count),
                )
        for group in self._warned.keys() - sizes.keys():
            del self._warned[group]
