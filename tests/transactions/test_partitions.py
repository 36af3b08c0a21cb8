"""AddPartitionsToTxn, AddOffsetsToTxn and VERIFY."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.transactions.apis.partitions import refused
from muster.actors.transactions.codec import adapters
from muster.actors.transactions.messages import AddPartitionsToTxn, PartitionsOfTransaction, failed
from muster.actors.transactions.state import TransactionState
from muster.actors.transactions.types import TransactionalId
from tests.transactions.driver import (
    START_MS,
    T0,
    T1,
    U0,
    Driver,
    add,
    add_offsets,
    at_epoch,
    end,
    error_of,
    init,
    verify,
)

E = ErrorCode
Make = Callable[..., Driver]


def test_what_is_in_it_writes_nothing(driver: Driver) -> None:
    producer = driver.producer(init())
    assert driver.error(add(producer, T0)) is E.none
    written = len(driver.log)
    assert driver.error(add(producer, T0)) is E.none
    assert len(driver.log) == written
    driver.advance(5)
    assert driver.error(add(producer, T0, T1)) is E.none
    assert len(driver.log) == written + 1
    metadata = driver.metadata()
    assert (metadata.partitions, metadata.start_ms) == ({T0, T1}, START_MS)


def test_all_or_none() -> None:
    errors = {"u": E.unknown_topic_or_partition}

    def given(version: int, *places: tuple[str, int]) -> dict[str, E] | None:
        (transaction,) = add((1, 0), *places).transactions
        result = refused(transaction, version, lambda topic, _: errors.get(topic, E.none))
        if result is None:
            return None
        return {topic.name: topic.results_by_partition[0].partition_error_code for topic in result.topic_results}

    assert given(3, T0) is None
    assert given(3, T0, U0) == given(5, T0, U0) == {"t": E.operation_not_attempted, **errors}
    for internal in ("__consumer_offsets", "__transaction_state"):
        assert given(3, (internal, 0)) == {internal: E.topic_authorization_failed}
        assert given(4, (internal, 0)) is None


def test_a_stale_epoch_and_another_producer(driver: Driver) -> None:
    producer_id, epoch = at_epoch(driver, 3)
    for stale in (2, 4):
        response = driver.exchange(add((producer_id, stale), T0))
        assert error_of(response) is E.producer_fenced
        for version, error in ((1, E.invalid_producer_epoch), (2, E.producer_fenced)):
            (topic,) = adapters.encode(version, response).results_by_topic_v3_and_below  # type: ignore[union-attr]
            assert topic.results_by_partition[0].partition_error_code is error
    assert driver.error(add((producer_id + 1, epoch), T0)) is E.invalid_producer_id_mapping
    assert driver.error(add((producer_id, epoch), T0, name="y")) is E.invalid_producer_id_mapping
    assert driver.metadata().state is TransactionState.EMPTY


def test_offsets_of_a_group(driver: Driver) -> None:
    producer = driver.producer(init())
    assert driver.error(add_offsets(producer, "a")) is E.none
    assert driver.metadata().partitions == {("__consumer_offsets", 47)}
    assert driver.error(add_offsets(producer, "a")) is E.none
    assert driver.error(add_offsets((producer[0], 1))) is E.producer_fenced


def test_verification_changes_nothing(driver: Driver) -> None:
    producer = driver.producer(init())
    assert driver.error(verify(producer, T0)) is E.transaction_abortable
    driver.exchange(add(producer, T0))
    written = len(driver.log)
    assert driver.exchange(verify(producer, T0, T1)).errors == (E.none, E.transaction_abortable)
    assert driver.error(verify((producer[0], 1), T0)) is E.producer_fenced
    assert driver.error(verify((producer[0] + 1, 0), T0)) is E.invalid_producer_id_mapping
    assert driver.error(verify(producer, T0, name="y")) is E.invalid_producer_id_mapping
    assert driver.error(verify(producer, T0, name="")) is E.invalid_request
    assert len(driver.log) == written


def test_verification_that_adds(driver: Driver) -> None:
    producer = driver.producer(init())
    assert driver.exchange(verify(producer, T0, T1, U0, add=True)).errors == (E.none,) * 3
    assert len(driver.log) == 2
    metadata = driver.metadata()
    assert (metadata.partitions, metadata.client_transaction_version) == ({T0, T1, U0}, 2)
    driver.producer(end(producer, version=5))
    assert [marker.partitions for marker in driver.markers] == [(T0, T1, U0)]


def test_verification_while_the_end_is_decided(make: Make) -> None:
    driver = make(takes=False)
    producer = driver.producer(init())
    driver.exchange(add(producer, T0))
    driver.park(end(producer))
    assert driver.error(verify(producer, T0)) is E.concurrent_transactions
    assert driver.error(verify(producer, T0, add=True)) is E.concurrent_transactions


def test_yes_waits_for_the_log(make: Make) -> None:
    driver = make()
    producer = driver.producer(init())
    driver.auto = False
    added, again, verified = (driver.park(each) for each in (add(producer, T0),) * 2 + (verify(producer, T0),))
    driver.write_all()
    assert {error_of(driver.responses[token]) for token in (added, again, verified)} == {E.none}


def test_yes_that_is_not_written(make: Make) -> None:
    driver = make()
    producer = driver.producer(init())
    driver.auto = False
    tokens = [driver.park(each) for each in (add(producer, T0), verify(producer, T0))]
    driver.fail(E.message_too_large)
    assert {error_of(driver.responses[token]) for token in tokens} == {E.unknown_server_error}
    assert driver.error(verify(producer, T0)) is E.transaction_abortable


def test_several_transactions_have_results_of_their_own(driver: Driver) -> None:
    one, other = driver.producer(init()), driver.producer(init(name="y"))

    def part(name: str, producer: tuple[int, int], verify_only: bool) -> PartitionsOfTransaction:
        return PartitionsOfTransaction(
            transactional_id=TransactionalId(name),
            producer_id=producer[0],
            producer_epoch=producer[1],
            partitions=(T0,),
            verify_only=verify_only,
        )

    parts = (part("x", one, False), part("x", one, True), part("y", other, True), part("y", (other[0], 5), False))
    request = AddPartitionsToTxn(api_version=5, transactions=parts)
    results = driver.exchange(request).results_by_transaction
    errors = [result.topic_results[0].results_by_partition[0].partition_error_code for result in results]
    assert errors == [E.none, E.none, E.transaction_abortable, E.producer_fenced]


def test_a_new_transaction_begins_after_the_last(driver: Driver) -> None:
    producer = driver.producer(init())
    driver.exchange(add(producer, T0))
    driver.exchange(end(producer))
    driver.advance(100)
    assert driver.error(add(producer, U0)) is E.none
    metadata = driver.metadata()
    assert (metadata.start_ms, metadata.partitions) == (START_MS + 100, {U0})


@pytest.mark.parametrize("error", [E.not_coordinator, E.coordinator_not_available])
def test_a_failure_names_every_partition(error: E) -> None:
    assert error_of(failed(add((1, 0), T0, T1, U0), error)) is error
    assert error_of(failed(verify((1, 0), T0, T1), error)) is error
