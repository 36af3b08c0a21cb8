"""InitProducerId: who gets which producer id and epoch, and who is fenced."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.transactions.state import TransactionState
from tests.transactions.driver import T0, Driver, add, at_epoch, end, init

E = ErrorCode
Make = Callable[..., Driver]


def test_a_new_id_begins_with_epoch_0(driver: Driver) -> None:
    producer_id, epoch = driver.producer(init())
    assert epoch == 0
    metadata = driver.metadata()
    assert (metadata.state, metadata.start_ms, metadata.partitions) == (TransactionState.EMPTY, -1, frozenset())
    assert len(driver.log) == 1
    assert driver.producer(init()) == (producer_id, 1)
    assert driver.producer(init()) == (producer_id, 2)


def test_ids_of_producers_differ(driver: Driver) -> None:
    producers = [driver.producer(init(name=name)) for name in ("x", "y", "z", None, None)]
    assert len({producer_id for producer_id, _ in producers}) == 5


@pytest.mark.parametrize(
    ("timeout_ms", "error"),
    [(0, E.invalid_transaction_timeout), (-1, E.invalid_transaction_timeout), (900_000, E.none),
     (900_001, E.invalid_transaction_timeout)],
)  # fmt: skip
def test_bounds_of_the_timeout(driver: Driver, timeout_ms: int, error: E) -> None:
    assert driver.error(init(timeout_ms=timeout_ms)) is error
    driver.load()
    loading = E.coordinator_load_in_progress if error is E.none else error
    assert driver.error(init(timeout_ms=timeout_ms)) is loading


def test_no_id_and_the_empty_id(driver: Driver) -> None:
    assert driver.error(init(name="")) is E.invalid_request
    first, second = driver.producer(init(name=None)), driver.producer(init((7, 3), name=None))
    assert first[1] == second[1] == 0
    assert first[0] != second[0] != 7
    assert driver.log == []


@pytest.mark.parametrize("pair", [(5, -1), (-1, 5)])
def test_half_a_producer_is_refused(driver: Driver, pair: tuple[int, int]) -> None:
    assert driver.error(init(pair)) is E.invalid_request


def test_two_phase_commit_is_refused(driver: Driver) -> None:
    from dataclasses import replace

    request = init(version=6)
    assert driver.error(replace(request, enable_2pc=True)) is E.transactional_id_authorization_failed
    assert driver.error(replace(request, keep_prepared_txn=True)) is E.transactional_id_authorization_failed


def test_a_producer_that_names_itself_gets_the_next_epoch_again(driver: Driver) -> None:
    producer_id, _ = at_epoch(driver, 3)
    assert driver.producer(init((producer_id, 3))) == (producer_id, 4)
    assert driver.producer(init((producer_id, 3))) == (producer_id, 4)


def test_another_producer_in_between_fences_it(driver: Driver) -> None:
    producer_id, _ = at_epoch(driver, 3)
    assert driver.producer(init((producer_id, 3))) == (producer_id, 4)
    assert driver.producer(init()) == (producer_id, 5)
    assert driver.error(init((producer_id, 3))) is E.producer_fenced


def test_a_producer_that_names_another_id_or_an_old_epoch_is_fenced(driver: Driver) -> None:
    producer_id, _ = at_epoch(driver, 3)
    assert driver.error(init((producer_id + 7, 3))) is E.producer_fenced
    assert driver.error(init((producer_id, 1))) is E.producer_fenced
    assert driver.metadata().producer_epoch == 3


def test_exhausted_epochs_bring_another_id(driver: Driver) -> None:
    old, _ = at_epoch(driver, 32_766)
    new, epoch = driver.producer(init())
    assert (new != old, epoch) == (True, 0)
    assert driver.metadata().previous_producer_id == old


def test_exhausted_epochs_of_a_producer_that_names_itself(driver: Driver) -> None:
    old, _ = at_epoch(driver, 32_766)
    given = driver.producer(init((old, 32_766)))
    assert given[0] != old
    assert given[1] == 0
    assert driver.producer(init((old, 32_766))) == given
    assert driver.error(init((old, 32_765))) is E.producer_fenced


def test_an_open_transaction_is_aborted_first(classic: Driver) -> None:
    driver = classic
    producer_id, epoch = at_epoch(driver, 3)
    assert driver.error(add((producer_id, epoch), T0)) is E.none
    assert driver.error(init()) is E.concurrent_transactions
    (marker,) = driver.markers
    assert (marker.producer_epoch, marker.commit, marker.partitions) == (4, False, (T0,))
    assert driver.producer(init()) == (producer_id, 5)
    assert driver.error(end((producer_id, epoch))) is E.producer_fenced


def test_a_fence_that_could_not_be_written_bumps_once(make: Make) -> None:
    driver = make(transaction_version=1)
    producer = at_epoch(driver, 3)
    driver.exchange(add(producer, T0))
    driver.auto = False
    token = driver.park(init())
    driver.fail()
    assert driver.responses[token].error_code is E.not_coordinator  # type: ignore[union-attr]
    assert driver.metadata().producer_epoch == 3
    driver.auto = True
    assert driver.error(init()) is E.concurrent_transactions
    assert driver.metadata().producer_epoch == 4


def test_a_fence_at_the_last_epoch(classic: Driver) -> None:
    driver = classic
    producer = at_epoch(driver, 32_766)
    driver.exchange(add(producer, T0))
    assert driver.error(init()) is E.concurrent_transactions
    assert driver.markers[0].producer_epoch == 32_767
    new, epoch = driver.producer(init())
    assert (new != producer[0], epoch) == (True, 0)


def test_a_fence_at_the_last_epoch_of_the_newest_protocol(driver: Driver) -> None:
    producer = at_epoch(driver, 32_766)
    driver.exchange(add(producer, T0))
    assert driver.error(init()) is E.concurrent_transactions
    assert driver.markers[0].producer_epoch == 32_767
    metadata = driver.metadata()
    assert (metadata.producer_epoch, metadata.previous_producer_id) == (0, producer[0])
    assert driver.producer(init()) == (metadata.producer_id, 1)


def test_a_producer_continues_after_its_id_has_expired(make: Make) -> None:
    driver = make(transactional_id_expiration_ms=1000, transaction_remove_expired_transaction_cleanup_interval_ms=500)
    producer = driver.producer(init())
    driver.advance(1000)
    assert driver.error(add(producer, T0)) is E.invalid_producer_id_mapping
    new, epoch = driver.producer(init(producer))
    assert (new != producer[0], epoch) == (True, 0)


def test_markers_that_are_missing_hold_it_up(make: Make) -> None:
    driver = make(takes=False, transaction_end_wait_ms=0)
    producer = driver.producer(init())
    driver.exchange(add(producer, T0))
    assert driver.error(end(producer)) is E.none
    for request in (init(), init(producer), add(producer, T0), end(producer), end(producer, commit=False)):
        assert driver.error(request) is E.concurrent_transactions
    driver.mark()
    assert driver.producer(init()) == (producer[0], 1)


def test_without_producer_ids_it_can_be_tried_again(driver: Driver) -> None:
    while not driver.core.needs_producer_ids:
        driver.producer(init(name=None))
    for _ in range(99):
        driver.producer(init(name=None))
    assert driver.error(init(name=None)) is E.coordinator_load_in_progress
    assert driver.error(init()) is E.coordinator_load_in_progress
    driver.core.give_producer_ids(range(50_000, 51_000))
    assert driver.producer(init()) == (50_000, 0)
