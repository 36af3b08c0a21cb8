"""DescribeTransactions and ListTransactions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.transactions.messages import DescribeTransactions, ListTransactions
from muster.actors.transactions.types import TransactionalId
from tests.transactions.driver import T0, T1, U0, Driver, add, end, init

E = ErrorCode
Make = Callable[..., Driver]


@pytest.fixture
def driver(make: Make) -> Driver:
    driver = make(takes=False)
    for name in ("empty", "open", "aborting"):
        producer = driver.producer(init(name=name))
        if name != "empty":
            driver.exchange(add(producer, U0, T1, T0, name=name))
        if name == "aborting":
            driver.park(end(producer, name=name, commit=False))
        driver.advance(10)
    return driver


def listed(driver: Driver, **filters: object) -> list[str]:
    response = driver.exchange(ListTransactions(api_version=2, **filters))  # type: ignore[arg-type]
    assert response.error_code is E.none
    return [each.transactional_id for each in response.transaction_states]


def test_a_transaction_is_described(driver: Driver) -> None:
    state = driver.described("open")
    assert (state.transaction_state, state.transaction_timeout, state.error_code) == ("Ongoing", 60_000, E.none)
    assert state.transaction_start_time == driver.now_ms - 20
    assert [(topic.topic, topic.partitions) for topic in state.topics] == [("t", (0, 1)), ("u", (0,))]
    assert driver.described("empty").transaction_start_time == -1
    assert driver.described("aborting").transaction_state == "PrepareAbort"


def test_ids_that_are_not_known(driver: Driver) -> None:
    request = DescribeTransactions(api_version=0, transactional_ids=(TransactionalId("y"), TransactionalId("")))
    states = driver.exchange(request).transaction_states
    assert [state.error_code for state in states] == [E.transactional_id_not_found, E.invalid_request]


def test_a_description_rests_on_the_log(driver: Driver) -> None:
    driver.auto = False
    driver.park(init(name="new"))
    token = driver.park(DescribeTransactions(api_version=0, transactional_ids=(TransactionalId("new"),)))
    driver.write_all()
    assert driver.responses[token].transaction_states[0].transaction_state == "Empty"  # type: ignore[union-attr]


def test_filters(driver: Driver) -> None:
    assert listed(driver) == ["empty", "open", "aborting"]
    assert listed(driver, state_filters=("Ongoing", "Bogus")) == ["open"]
    assert listed(driver, state_filters=("Bogus",)) == []
    assert listed(driver, state_filters=("Dead",)) == []
    open_id = driver.metadata("open").producer_id
    assert listed(driver, producer_id_filters=(open_id, 5)) == ["open"]
    assert listed(driver, producer_id_filters=(open_id,), state_filters=("Empty",)) == []
    assert listed(driver, duration_filter_ms=0) == ["open", "aborting"]
    assert listed(driver, duration_filter_ms=10) == ["open"]
    assert listed(driver, duration_filter_ms=20) == []
    assert listed(driver, transactional_id_pattern="") == ["empty", "open", "aborting"]
    assert listed(driver, transactional_id_pattern="o.*n|a") == ["open"]
    assert listed(driver, transactional_id_pattern="pen") == []


def test_unknown_states_and_bad_patterns(driver: Driver) -> None:
    request = ListTransactions(api_version=2, state_filters=("Ongoing", "Bogus", "Bogus", "ongoing", "Dead"))
    assert driver.exchange(request).unknown_state_filters == ("Bogus", "ongoing")
    for pattern in ("(", "(?=o)open"):  # RE2 knows nothing that could take long
        request = ListTransactions(api_version=2, transactional_id_pattern=pattern)
        assert driver.error(request) is E.invalid_regular_expression


def test_while_it_loads(driver: Driver) -> None:
    driver.load()
    response = driver.exchange(ListTransactions(api_version=2))
    assert (response.error_code, response.transaction_states) == (E.coordinator_load_in_progress, ())
    assert driver.described("open").error_code is E.coordinator_load_in_progress
