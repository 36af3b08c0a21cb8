"""A request for what all coordinators list goes to few of them at a time."""

from __future__ import annotations

import asyncio

import pytest

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis import coordinators as module
from muster.gateway.apis.coordinators import AT_ONCE, Listed, listed

PARTITIONS = list(range(5 * AT_ONCE))


class Coordinators:
    """Each lists its own number, the later ones sooner."""

    def __init__(self, failing: int | None = None) -> None:
        self._failing = failing
        self.queried: list[int] = []
        self.most = self._now = 0

    async def query(self, partition: int) -> Listed:
        self.queried.append(partition)
        self._now += 1
        self.most = max(self.most, self._now)
        for _ in range(len(PARTITIONS) - partition):
            await asyncio.sleep(0)
        self._now -= 1
        if partition == self._failing:
            return ErrorCode.coordinator_load_in_progress, []
        return ErrorCode.none, [b"%d" % partition]


def test_few_are_queried_at_a_time_and_all_in_order() -> None:
    coordinators = Coordinators()
    error, found = asyncio.run(listed(PARTITIONS, coordinators.query))
    assert error is ErrorCode.none
    assert found == [b"%d" % partition for partition in PARTITIONS]
    assert coordinators.most == AT_ONCE


def test_after_an_error_no_other_is_queried() -> None:
    coordinators = Coordinators(failing=AT_ONCE)
    assert asyncio.run(listed(PARTITIONS, coordinators.query)) == (ErrorCode.coordinator_load_in_progress, [])
    assert len(coordinators.queried) <= 3 * AT_ONCE


def test_after_an_exception_no_other_is_queried() -> None:
    coordinators = Coordinators()

    async def query(partition: int) -> Listed:
        if partition == 1:
            raise ValueError("unreadable")
        return await coordinators.query(partition)

    async def all_of_them() -> int:
        with pytest.raises(ValueError, match="unreadable"):
            await listed(PARTITIONS, query)
        queried = len(coordinators.queried)
        for _ in range(100):
            await asyncio.sleep(0)
        return queried

    assert asyncio.run(all_of_them()) == len(coordinators.queried) < AT_ONCE


def test_all_together_have_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUEST_TIMEOUT_S", 0.05)

    async def query(partition: int) -> Listed:
        await asyncio.Event().wait()
        raise AssertionError

    assert asyncio.run(listed(PARTITIONS, query)) == (ErrorCode.coordinator_load_in_progress, [])


def test_nothing_is_listed_where_there_is_no_coordinator() -> None:
    assert asyncio.run(listed([], Coordinators().query)) == (ErrorCode.none, [])
