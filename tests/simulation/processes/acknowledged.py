"""Promises of the copies of the actor, and the checks of these promises."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from kio.schema.errors import ErrorCode

from muster.actors.group.codec.adapters import OFFSET_COMMIT, OFFSET_FETCH
from muster.actors.log.committer import Write
from tests.simulation.planted.broken import Broken
from tests.simulation.processes.process import Machine

Place = tuple[str, str, int]
"""Group, topic, partition."""


@dataclass(slots=True, eq=False)
class Commit:
    offset: int
    epoch: int
    number: int
    """In the order in which requests were handled; the log has the commits of an epoch in this order."""
    acknowledged: int | None = None
    """The number of requests before its acknowledgement."""

    @property
    def order(self) -> tuple[int, int]:
        return self.epoch, self.number


@dataclass(slots=True, eq=False)
class Handled:
    """A request that a copy has started to handle."""

    epoch: int
    number: int
    api_key: int
    group: str
    """By request, since responses to OffsetFetch do not name the group before version 8."""
    commits: dict[Place, Commit]


class Acknowledged:
    def __init__(self, machine: Machine) -> None:
        self.counts: Counter[str] = Counter()
        self.commits: defaultdict[Place, list[Commit]] = defaultdict(list)
        self._machine = machine
        self._given: set[int] = set()
        self._opened: dict[int, tuple[str, int]] = {}
        self._pushed: dict[Write, int] = {}
        self._acknowledged: dict[int, tuple[int, str]] = {}
        self._number = 0

    def _broken(self, invariant: str, detail: str) -> None:
        self._machine.found(Broken(detail, invariant))

    # Epochs and logs.

    def epoch_given(self, epoch: int) -> None:
        if epoch in self._given:
            self._broken("an_epoch_is_given_once", f"epoch {epoch}")
        self._given.add(epoch)

    def opened(self, copy: str, epoch: int) -> None:
        """Note that the copy has the claim."""
        self.counts["opened"] += 1
        if epoch in self._opened:
            self._broken("an_epoch_has_one_copy", f"{copy} and {self._opened[epoch][0]} open epoch {epoch}")
        self._opened[epoch] = copy, self._number
        self._number += 1

    def pushed(self, write: Write) -> None:
        self._pushed[write] = self._number
        self._number += 1

    def settled(self, copy: str, epoch: int, write: Write, error: Any, synced: bool) -> None:
        pushed = self._pushed.pop(write)
        said = "acknowledges" if error is None else "gives up"
        self._machine.note("%s %s offset %s for epoch %s", copy, said, write.header.base_offset, epoch)
        if error is not None:
            self.counts["refused by the log"] += 1
            return
        self.counts["batches"] += 1
        newer = [each for each, (_, opened) in self._opened.items() if each > epoch and opened < pushed]
        if newer:
            detail = (
                f"{copy} acknowledges offset {write.header.base_offset} for epoch {epoch}, epoch {max(newer)} serves"
            )
            self._broken("a_fenced_copy_acknowledges_nothing", detail)
        for offset in range(write.header.base_offset, write.header.next_offset):
            before = self._acknowledged.setdefault(offset, (epoch, copy))
            if before != (epoch, copy):
                self._broken("an_offset_is_acknowledged_once", f"{offset} by {before} and {(epoch, copy)}")
        if not synced:
            self._broken("what_is_acknowledged_is_synced", f"{copy}: offset {write.header.base_offset}")

    # Requests and answers.

    def handled(self, epoch: int, api_key: int, entity: Any) -> Handled:
        """Note that a copy starts to handle the request."""
        self._number += 1
        commits = {}
        if api_key == OFFSET_COMMIT:
            for topic in entity.topics:
                for partition in topic.partitions:
                    place = (str(entity.group_id), str(topic.name), int(partition.partition_index))
                    commits[place] = Commit(int(partition.committed_offset), epoch, self._number)
                    self.commits[place].append(commits[place])
        return Handled(epoch, self._number, api_key, str(getattr(entity, "group_id", "")), commits)

    def answered(self, request: Handled, response: Any) -> None:
        """Note that the response leaves the process."""
        self._number += 1
        self._machine.note("epoch %s answers request %s of API %s", request.epoch, request.number, request.api_key)
        if request.api_key == OFFSET_COMMIT:
            for topic in response.topics:
                for partition in topic.partitions:
                    if partition.error_code is ErrorCode.none:
                        self._acknowledge(request, str(topic.name), int(partition.partition_index))
        elif request.api_key == OFFSET_FETCH:
            self._fetched(request, response)

    def _acknowledge(self, request: Handled, topic: str, partition: int) -> None:
        self.counts["acknowledged"] += 1
        for place, commit in request.commits.items():
            if place[1:] == (topic, partition):
                commit.acknowledged = self._number

    def _fetched(self, request: Handled, response: Any) -> None:
        for group, topics in _by_group(request, response):
            for topic in topics:
                for partition in topic.partitions:
                    if partition.error_code is ErrorCode.none:
                        place = (group, str(topic.name), int(partition.partition_index))
                        self._check_fetched(request, place, int(partition.committed_offset))

    def _check_fetched(self, request: Handled, place: Place, offset: int) -> None:
        """Check that an epoch shows nothing older than was acknowledged in it, or in an earlier one, by that time."""
        self.counts["fetched"] += 1
        known = [each for each in self.commits[place] if each.epoch <= request.epoch]
        promised = [
            each.order for each in known if each.acknowledged is not None and each.acknowledged < request.number
        ]
        shown = [each.order for each in known if each.offset == offset]
        if offset >= 0 and not shown:
            self._broken("what_is_fetched_was_committed", f"{place}: {offset} in epoch {request.epoch}")
        elif promised and max(shown, default=(-1, -1)) < max(promised):
            detail = (
                f"{place}: epoch {request.epoch} shows {offset}, acknowledged was {self._offset(place, max(promised))}"
            )
            self._broken("no_acknowledged_commit_is_lost", detail)

    def _offset(self, place: Place, order: tuple[int, int]) -> str:
        commit = next(each for each in self.commits[place] if each.order == order)
        return f"{commit.offset} in epoch {commit.epoch}"


def _by_group(request: Handled, response: Any) -> list[tuple[str, Any]]:
    """Return the topics of each requested group."""
    if getattr(response, "groups", None):
        return [(str(group.group_id), group.topics) for group in response.groups]
    return [(request.group, getattr(response, "topics", ()))]
