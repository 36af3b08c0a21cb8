"""Readers' view of transactions: the last stable offset, and which of them were aborted."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.actors.log.config import LogConfig
from muster.actors.log.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from muster.actors.log.format.batch import iter_headers
from tests.log.support import NOW_MS, client_batch, open_log, run
from tests.log.transactions.support import (
    ALL_BYTES,
    P,
    Q,
    abort,
    aborted_from,
    commit,
    committed,
    committed_from,
    enqueue,
    marker,
    transactional,
    write,
)

pytestmark = pytest.mark.usefixtures("either_storage")


def test_an_open_transaction_holds_the_last_stable_offset_until_its_marker(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1)
        for sequence in range(3):
            await write(log, P, 0, sequence)
        assert (log.last_stable_offset, log.high_watermark) == (0, 3)
        assert log.bytes_available(0, log.last_stable_offset) == 0
        assert log.read(0, ALL_BYTES, at_least_one=True, before=log.last_stable_offset) == b""
        assert await commit(log, P, 0) == 3
        assert log.last_stable_offset == log.high_watermark == 4
        assert log.append_time_ms(3) == NOW_MS
        assert committed(log) == [0, 1, 2]
        assert committed_from(log, 0)[1] == 4
        await log.close()

    run(main())


def test_aborted_records_are_served_and_listed(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1)
        for sequence in range(3):
            await write(log, P, 0, sequence)
        await abort(log, P, 0)
        assert aborted_from(log, 0) == [(P, 0)]
        assert committed_from(log, 0) == ([], 4)
        assert [header.is_control for _, header in iter_headers(log.read(0, ALL_BYTES, at_least_one=True))] == [
            False,
            False,
            False,
            True,
        ]
        await log.close()

    run(main())


def test_the_first_of_two_open_transactions_counts(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1)
        await write(log, P, 0, 0)
        await write(log, Q, 0, 0)
        assert await abort(log, Q, 0) == 2
        [entry] = log._writer.segments[-1].aborted
        assert entry == (Q, 1, 2, 0)
        assert log.last_stable_offset == 0
        assert await commit(log, P, 0) == 3
        assert log.last_stable_offset == 4
        assert aborted_from(log, 0) == [(Q, 1)]
        assert committed(log) == [0]
        await log.close()

    run(main())


def test_a_transaction_that_began_before_the_fetch_is_listed_until_its_marker(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1)
        for sequence in range(100):
            enqueue(log, P, 0, sequence)
        assert await abort(log, P, 0) == 100
        assert aborted_from(log, 50) == aborted_from(log, 100) == [(P, 0)]
        await log.append(client_batch())
        assert aborted_from(log, 101) == []
        await log.close()

    run(main())


def test_only_the_aborted_one_of_three_transactions_of_a_producer_is_left_out(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1)
        await write(log, P, 0, 0, 5)
        assert await commit(log, P, 0) == 5
        await write(log, P, 0, 5, 4)
        assert await abort(log, P, 0) == 10
        await write(log, P, 0, 9, 4)
        assert await commit(log, P, 0) == 15
        assert aborted_from(log, 0) == [(P, 6)]
        assert committed(log) == [*range(5), *range(11, 15)]
        assert aborted_from(log, 11) == []
        assert committed(log, 11) == [*range(11, 15)]
        await log.close()

    run(main())


def test_a_marker_without_records_only_says_who_is_fenced(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1)
        await abort(log, P, 4)
        assert not len(log._writer.segments[-1].aborted)
        assert log.last_stable_offset == log.high_watermark == 1
        for epoch, sequence, error in ((3, 0, InvalidProducerEpoch), (4, 5, OutOfOrderSequence)):
            with pytest.raises(error):
                enqueue(log, P, epoch, sequence)
        assert (await write(log, P, 4, 0)).base_offset == 1
        await log.close()

    run(main())


@pytest.mark.parametrize(("coordinator_epoch", "is_fenced"), [(6, True), (7, False), (8, False)])
def test_an_older_coordinator_is_fenced(tmp_path: Path, coordinator_epoch: int, is_fenced: bool) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1)
        await log.enqueue_marker(marker(P, 0, commit=True, coordinator_epoch=7)).durable()
        again = marker(P, 0, commit=True, coordinator_epoch=coordinator_epoch)
        if is_fenced:
            with pytest.raises(TransactionCoordinatorFenced):
                log.enqueue_marker(again)
        else:
            assert (await log.enqueue_marker(again).durable()).base_offset == 1
        await log.close()

    run(main())


def test_a_repeated_marker_with_an_epoch_of_its_own_changes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1)
        await write(log, P, 3, 0)
        end = marker(P, 4, commit=True, version=2)
        await log.enqueue_marker(end).durable()
        await log.enqueue_marker(end).durable()
        assert committed(log) == [0]
        await write(log, P, 4, 0)
        with pytest.raises(InvalidProducerEpoch):
            log.enqueue_marker(end)
        await log.enqueue_marker(marker(P, 4, commit=False)).durable()  # as an administrator sends it
        assert log.last_stable_offset == log.high_watermark
        assert committed(log) == [0]
        await log.close()

    run(main())


def test_a_late_attempt_of_an_earlier_decision_ends_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1)
        await write(log, P, 0, 0)
        first = marker(P, 0, commit=True, decision=17)
        appended, repeated = log.enqueue_marker(first), log.enqueue_marker(first)
        assert repeated.result.duplicate
        assert repeated.done is appended.done
        await repeated.durable()
        await write(log, P, 0, 1)
        assert (await log.enqueue_marker(first).durable()).duplicate
        assert (await log.enqueue_marker(marker(P, 0, commit=False, decision=5)).durable()).duplicate
        assert log.last_stable_offset == 2
        assert not (await log.enqueue_marker(marker(P, 0, commit=False, decision=18)).durable()).duplicate
        assert committed(log) == [0]
        await log.close()

    run(main())


def test_a_decision_that_a_newer_coordinator_repeats_fences_the_older(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1)
        await write(log, P, 0, 0)
        old, new = (marker(P, 0, commit=True, decision=17, coordinator_epoch=epoch) for epoch in (1, 2))
        assert not (await log.enqueue_marker(old).durable()).duplicate
        assert not (await log.enqueue_marker(new).durable()).duplicate
        assert (await log.enqueue_marker(new).durable()).duplicate
        await write(log, P, 0, 1)
        await log.close()
        again = open_log(tmp_path / "t-0", 2)
        with pytest.raises(TransactionCoordinatorFenced):
            again.enqueue_marker(old)
        assert committed(again) == [0]
        await again.close()

    run(main())


def test_batches_that_no_transaction_is_open_for(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1)
        with pytest.raises(InvalidTxnState):
            log.enqueue(transactional(P, 0, 0))
        guard = log.guard_for(P, 0, 0)
        await abort(log, P, 0)
        with pytest.raises(InvalidTxnState):
            log.enqueue(transactional(P, 0, 0), guard)
        await write(log, P, 0, 0)
        with pytest.raises(InvalidTxnState):
            log.enqueue(client_batch(producer=(P, 0, 1)))
        with pytest.raises(InvalidTxnState):
            log.enqueue(transactional(P, 1, 0))
        assert (log.last_stable_offset, log.high_watermark) == (1, 2)
        await log.close()

    run(main())


def test_the_lowest_sequence_that_waited_for_the_coordinator_is_written_first(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1)
        late, first = log.guard_for(P, 0, 3), log.guard_for(P, 0, 0)
        assert late is first is not None
        with pytest.raises(OutOfOrderSequence):
            log.enqueue(transactional(P, 0, 3), late)
        log.enqueue(transactional(P, 0, 0, 3), first)
        await log.enqueue(transactional(P, 0, 3), late).durable()
        unknown = log.guard_for(Q, 0, 7, 2)
        with pytest.raises(OutOfOrderSequence):  # with its own epoch, every transaction starts at 0
            log.enqueue(transactional(Q, 0, 7), unknown)
        await log.close()

    run(main())


def test_retries_get_the_first_result_even_after_the_marker(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1)
        for sequence in range(6):
            enqueue(log, P, 0, sequence)
        assert (await log.enqueue(transactional(P, 0, 3)).durable()).base_offset == 3
        with pytest.raises(OutOfOrderSequence):
            log.enqueue(transactional(P, 0, 0))
        await commit(log, P, 0)
        repeated = await log.enqueue(transactional(P, 0, 5)).durable()
        assert (repeated.base_offset, repeated.duplicate) == (5, True)
        await log.close()

    run(main())


def test_records_deleted_in_the_middle_of_a_transaction(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1)
        for sequence in range(4):
            await write(log, P, 0, sequence * 2, 2)
        assert await log.delete_records(5) == 5
        assert log.last_stable_offset == 5
        assert committed_from(log, 5) == ([], 5)
        await write(log, P, 0, 8)
        await commit(log, P, 0)
        assert log.last_stable_offset == log.high_watermark == 10
        assert committed(log, 5) == [5, 6, 7, 8]
        await log.close()

    run(main())


def test_a_coordinator_writes_records_of_a_transaction_without_sequences(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1)
        with pytest.raises(InvalidTxnState):
            log.enqueue_records([(b"k", b"v")], 5, producer=(P, 2))
        log.enqueue_records([(b"k", b"v")], 5, producer=(P, 2), guard=log.guard_for(P, 2))
        log.enqueue_records([(b"k", b"w")], 5, producer=(P, 2))
        log.enqueue_records([(b"other", b"x")], 5)
        assert await abort(log, P, 2) == 3
        with pytest.raises(InvalidProducerEpoch):
            log.guard_for(P, 1)
        assert committed(log) == [2]
        found = [
            (header.producer_id if header.is_transactional else None, records if header.is_control else list(records))
            for header, records in log.replay_batches()
        ]
        assert [producer_id for producer_id, _ in found] == [P, P, None, P]
        assert found[3][1] == (False, 0)
        assert [record.value for record in log.replay()] == [b"v", b"w", b"x"]
        await log.close()

    run(main())


def test_no_producer_is_forgotten_while_its_transaction_is_open(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1, config=LogConfig(producer_id_expiration_ms=-1))
        await write(log, P, 0, 0)
        await log.append(client_batch(producer=(Q, 0, 0)))
        await log._writer.roll()
        await log.apply_retention()
        assert set(log.producers()) == {P}
        await commit(log, P, 0)
        await log._writer.roll()
        await log.apply_retention()
        assert not log.producers()
        await log.close()

    run(main())
