"""The first batches of a transaction wait for its coordinator; nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest

from muster.actors.log.config import LogConfig
from muster.actors.log.open_logs import SharedDirectory
from muster.actors.log.partition import Append, PartitionLog
from muster.actors.log.partitions import Partitions
from muster.actors.log.produces import Produce, Submitted
from muster.actors.log.transactions.verification import Transaction
from muster.actors.wire.internal.markers import NO_DECISION, Marker
from muster.actors.wire.internal.produce import ProducedPartition
from muster.actors.wire.internal.verification import VerifyRequest
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.view import Topic
from tests.log.support import NOW_MS, client_batch, everything_has_run, run, view_of
from tests.log.transactions.support import P, Q, transactional

TOPIC = Topic(name="flights", topic_id=UUID(int=1), partitions=4)
OLD, NEW, ADDS = Transaction("tx", 0, False), Transaction("tx", 0, True), Transaction("tx", 2, True)
"""Produce v10, v11 and v12."""


class Coordinator:
    """A coordinator whose responses come when the test says so."""

    def __init__(self) -> None:
        self.queries: list[tuple[VerifyRequest, asyncio.Future[list[ErrorCode]]]] = []
        self.came = asyncio.Event()
        self.at_once: Sequence[ErrorCode] | None = None

    async def verify(self, request: VerifyRequest) -> list[ErrorCode]:
        response: asyncio.Future[list[ErrorCode]] = asyncio.get_running_loop().create_future()
        self.queries.append((request, response))
        self.came.set()
        if self.at_once is not None:
            response.set_result([*self.at_once][: len(request.partitions)])
        return await response

    async def next(self, number: int) -> VerifyRequest:
        """Return the query of that number, counted from 0, once it is there."""
        while len(self.queries) <= number:
            self.came.clear()
            await self.came.wait()
        return self.queries[number][0]

    def respond(self, number: int, *errors: ErrorCode) -> None:
        self.queries[number][1].set_result(list(errors))


class World:
    def __init__(self, storage: Path, config: LogConfig | None = None) -> None:
        self.coordinator = Coordinator()
        self.partitions = Partitions(
            storage=SharedDirectory(storage / "logs"),
            config=config or LogConfig(),
            topics=lambda: view_of(TOPIC),
            index=0,
            next_epoch=self._next_epoch,
            now_ms=lambda: NOW_MS,
            verifier=self.coordinator,
        )
        self._epoch = 0

    async def _next_epoch(self, topic: str, partition: int) -> int:
        self._epoch += 1
        return self._epoch

    def submit(self, records: bytes, transaction: Transaction | None = OLD, partition: int = 0) -> Submitted:
        return self.partitions.submit(TOPIC.topic_id, partition, records, transaction)

    async def log(self, partition: int = 0) -> PartitionLog:
        return await self.partitions.log_by_id(TOPIC.topic_id, partition)

    async def abort(self, producer_id: int, epoch: int) -> None:
        marker = Marker(producer_id, epoch, 0, False, 0, NO_DECISION, 0, [(TOPIC.topic_id, 0)])
        assert (await self.results(self.partitions.mark(TOPIC.topic_id, 0, marker)))[0].error_code is ErrorCode.none

    @staticmethod
    async def results(*submitted: Submitted) -> Sequence[ProducedPartition]:
        produced: asyncio.Future[Sequence[ProducedPartition]] = asyncio.get_running_loop().create_future()
        Produce(submitted, produced.set_result)
        return await produced


@asynccontextmanager
async def served(storage: Path, config: LogConfig | None = None) -> AsyncIterator[World]:
    world = World(storage, config)
    try:
        yield world
    finally:
        await world.partitions.close()


def offsets(results: Sequence[ProducedPartition]) -> list[int]:
    assert {each.error_code for each in results} == {ErrorCode.none}, results
    return [each.base_offset for each in results]


def test_batches_in_flight_wait_in_order_for_one_response(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as world:
            sent = [world.submit(transactional(P, 0, sequence)) for sequence in range(5)]
            request = await world.coordinator.next(0)
            assert request == VerifyRequest("tx", P, 0, [("flights", 0)], False, 0)
            assert (await world.log()).log_end_offset == 0
            world.coordinator.respond(0, ErrorCode.none)
            assert offsets(await world.results(*sent)) == [0, 1, 2, 3, 4]
            assert offsets(await world.results(world.submit(transactional(P, 0, 5)))) == [5]
            assert len(world.coordinator.queries) == 1
            assert (await world.log()).last_stable_offset == 0

    run(main())


def test_a_batch_that_cannot_be_appended_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with served(tmp_path) as world:
            first, _ = [await world.log(partition) for partition in (0, 1)]
            sent = [world.submit(transactional(P, 0, 0), partition=partition) for partition in (0, 1)]
            await world.coordinator.next(0)

            def fail(*_: object) -> Append:
                raise OSError(12, "Cannot allocate memory")

            monkeypatch.setattr(first, "enqueue_batch", fail)
            world.coordinator.respond(0, ErrorCode.none, ErrorCode.none)
            errors = [(await world.results(each))[0].error_code for each in sent]
            assert errors == [ErrorCode.unknown_server_error, ErrorCode.none]

    run(main())


def test_nothing_else_waits(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as world:
            waiting = world.submit(transactional(P, 0, 0))
            await world.coordinator.next(0)
            others = [world.submit(client_batch(), None), world.submit(client_batch(producer=(Q, 0, 0)), None)]
            assert offsets(await world.results(*others)) == [0, 1]
            other = world.submit(transactional(Q, 0, 1), Transaction("other", 0, False))
            assert (await world.coordinator.next(1)).transactional_id == "other"
            world.coordinator.respond(1, ErrorCode.none)
            assert offsets(await world.results(other)) == [2]
            assert not waiting.done()

    run(main())


def test_partitions_share_a_query_and_those_that_come_meanwhile_the_next(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as world:
            for partition in range(4):
                await world.log(partition)
            first = [world.submit(transactional(P, 0, 0), ADDS, partition) for partition in (2, 0)]
            assert (await world.coordinator.next(0)).partitions == [("flights", 2), ("flights", 0)]
            more = [world.submit(transactional(P, 0, 0), ADDS, partition) for partition in (1, 3)]
            again = world.submit(transactional(P, 0, 1), ADDS, 0)
            await everything_has_run()
            assert len(world.coordinator.queries) == 1
            world.coordinator.respond(0, ErrorCode.none, ErrorCode.none)
            assert offsets(await world.results(*first, again)) == [0, 0, 1]
            request = await world.coordinator.next(1)
            assert (request.partitions, request.add, request.transaction_version) == (
                [("flights", 1), ("flights", 3)],
                True,
                2,
            )
            world.coordinator.respond(1, ErrorCode.none, ErrorCode.transaction_abortable)
            assert [each.error_code for each in await world.results(*more)] == [0, 120]

    run(main())


@pytest.mark.parametrize(
    ("transaction", "error", "expected"),
    [
        (OLD, ErrorCode.transaction_abortable, ErrorCode.invalid_txn_state),
        (NEW, ErrorCode.transaction_abortable, ErrorCode.transaction_abortable),
        (ADDS, ErrorCode.transaction_abortable, ErrorCode.transaction_abortable),
        (OLD, ErrorCode.concurrent_transactions, ErrorCode.not_enough_replicas),
        (NEW, ErrorCode.concurrent_transactions, ErrorCode.not_enough_replicas),
        (ADDS, ErrorCode.concurrent_transactions, ErrorCode.concurrent_transactions),
        (NEW, ErrorCode.network_exception, ErrorCode.not_enough_replicas),
        (ADDS, ErrorCode.coordinator_load_in_progress, ErrorCode.not_enough_replicas),
        (NEW, ErrorCode.coordinator_not_available, ErrorCode.not_enough_replicas),
        (OLD, ErrorCode.not_coordinator, ErrorCode.not_enough_replicas),
        (ADDS, ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch),
        (NEW, ErrorCode.invalid_txn_state, ErrorCode.invalid_txn_state),
        (NEW, ErrorCode.invalid_producer_id_mapping, ErrorCode.invalid_producer_id_mapping),
        (NEW, ErrorCode.cluster_authorization_failed, ErrorCode.invalid_txn_state),
    ],
)
def test_what_a_producer_gets_for_an_error_of_the_coordinator(
    tmp_path: Path, transaction: Transaction, error: ErrorCode, expected: ErrorCode
) -> None:
    async def main() -> None:
        async with served(tmp_path) as world:
            world.coordinator.at_once = [error]
            sent = [world.submit(transactional(P, 0, sequence), transaction) for sequence in range(2)]
            assert [each.error_code for each in await world.results(*sent)] == [expected] * 2
            log = await world.log()
            assert log.last_stable_offset == log.log_end_offset == 0
            world.coordinator.at_once = [ErrorCode.none]
            assert offsets(await world.results(world.submit(transactional(P, 0, 0), transaction))) == [0]

    run(main())


def test_adding_is_tried_again_while_the_transaction_before_is_ending(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, LogConfig(add_partitions_to_txn_retry_backoff_max_ms=10_000)) as world:
            sent = world.submit(transactional(P, 0, 0), ADDS)
            for number in range(3):
                await world.coordinator.next(number)
                world.coordinator.respond(number, ErrorCode.concurrent_transactions)
            await world.coordinator.next(3)
            world.coordinator.respond(3, ErrorCode.none)
            assert offsets(await world.results(sent)) == [0]

    run(main())


@pytest.mark.parametrize("repeats", [0, 1, 2])
def test_the_marker_of_the_transaction_before_is_no_obstacle(tmp_path: Path, repeats: int) -> None:
    """The marker is written while the next transaction adds the partition, however often that is tried."""

    async def main() -> None:
        async with served(tmp_path, LogConfig(add_partitions_to_txn_retry_backoff_max_ms=10_000)) as world:
            first = world.submit(transactional(P, 0, 0), ADDS)
            await world.coordinator.next(0)
            world.coordinator.respond(0, ErrorCode.none)
            assert offsets(await world.results(first)) == [0]
            sent = [world.submit(transactional(P, 1, sequence), ADDS) for sequence in range(2)]
            for number in range(1, repeats + 1):
                await world.coordinator.next(number)
                world.coordinator.respond(number, ErrorCode.concurrent_transactions)
            await world.coordinator.next(repeats + 1)
            await world.abort(P, 1)
            later = world.submit(transactional(P, 1, 2), ADDS)
            world.coordinator.respond(repeats + 1, ErrorCode.none)
            world.coordinator.at_once = [ErrorCode.none]
            assert offsets(await world.results(*sent, later)) == [2, 3, 4]

    run(main())


def test_the_marker_of_the_same_transaction_fences_what_was_confirmed(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as world:
            sent = world.submit(transactional(P, 1, 0), ADDS)
            await world.coordinator.next(0)
            await world.abort(P, 2)
            world.coordinator.respond(0, ErrorCode.none)
            assert (await world.results(sent))[0].error_code is ErrorCode.invalid_producer_epoch

    run(main())


def test_a_marker_takes_the_right_to_begin_away(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as world:
            sent = world.submit(transactional(P, 0, 0))
            await world.coordinator.next(0)
            await world.abort(P, 0)
            later = world.submit(transactional(P, 0, 0))
            world.coordinator.respond(0, ErrorCode.none)
            assert [each.error_code for each in await world.results(sent)] == [ErrorCode.invalid_txn_state]
            await world.coordinator.next(1)
            world.coordinator.respond(1, ErrorCode.none)
            assert offsets(await world.results(later)) == [1]

    run(main())


def test_a_newer_instance_of_the_producer_fences_the_older_without_a_query(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as world:
            await world.abort(P, 4)
            assert (await world.results(world.submit(transactional(P, 3, 0))))[0].error_code is (
                ErrorCode.invalid_producer_epoch
            )
            newer = world.submit(transactional(P, 6, 0))
            older = world.submit(transactional(P, 5, 0))
            assert (await world.results(older))[0].error_code is ErrorCode.invalid_producer_epoch
            await world.coordinator.next(0)
            world.coordinator.respond(0, ErrorCode.none)
            assert offsets(await world.results(newer)) == [1]
            assert len(world.coordinator.queries) == 1

    run(main())


def test_a_retry_of_what_was_written_needs_no_query(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as world:
            world.coordinator.at_once = [ErrorCode.none]
            assert offsets(await world.results(world.submit(transactional(P, 0, 0)))) == [0]
            await world.abort(P, 0)
            assert offsets(await world.results(world.submit(transactional(P, 0, 0)))) == [0]
            assert len(world.coordinator.queries) == 1

    run(main())


def test_verification_can_be_disabled_for_the_classic_protocol(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, LogConfig(transaction_partition_verification_enable=False)) as world:
            assert offsets(await world.results(world.submit(transactional(P, 0, 0)))) == [0]
            assert not world.coordinator.queries
            adding = world.submit(transactional(Q, 0, 0), ADDS)
            await world.coordinator.next(0)
            world.coordinator.respond(0, ErrorCode.none)
            assert offsets(await world.results(adding)) == [1]

    run(main())


def test_what_is_not_transactional_needs_no_coordinator(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as world:
            assert offsets(await world.results(world.submit(client_batch(), OLD))) == [0]
            [refused] = await world.results(world.submit(client_batch()[:50], OLD))
            assert refused.error_code is ErrorCode.corrupt_message
            [unknown] = await world.results(world.submit(transactional(P, 0, 0), None))
            assert unknown.error_code is ErrorCode.invalid_txn_state
            assert not world.coordinator.queries

    run(main())


def test_what_waits_when_the_actor_ends_may_go_elsewhere(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as world:
            waiting = [world.submit(transactional(P, 0, 0)), world.submit(transactional(P, 0, 0), OLD, 1)]
            await world.coordinator.next(0)
            await world.partitions.close()
            assert [each.error_code for each in await world.results(*waiting)] == [6, 6]

    run(main())
