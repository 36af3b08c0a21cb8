"""Whose quota applies to whom, and what the live measures remember."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.gateway.quotas.clients import ClientQuotas
from muster.gateway.quotas.limits import ABSENT, DEFAULT, Limit, Limits, Part, QuotaKey, Who
from muster.gateway.quotas.measures import Measures, short
from muster.gateway.quotas.rate import Rate, Window
from muster.gateway.quotas.throttles import Throttles

WINDOW = Window(11, 1_000)
PRODUCE, FETCH = QuotaKey.PRODUCER_BYTE_RATE, QuotaKey.CONSUMER_BYTE_RATE
PRECEDENCE: tuple[tuple[Who, Who], ...] = (
    (("u", "c"), ("u", "c")),
    (("u", DEFAULT), ("u", "c")),
    (("u", ABSENT), ("u", ABSENT)),
    ((DEFAULT, "c"), ("u", "c")),
    ((DEFAULT, DEFAULT), ("u", "c")),
    ((DEFAULT, ABSENT), ("u", ABSENT)),
    ((ABSENT, "c"), (ABSENT, "c")),
    ((ABSENT, DEFAULT), (ABSENT, "c")),
)


@given(st.permutations(range(8)), st.integers(0, 8))
def test_the_first_rule_that_exists_applies(order: Sequence[int], count: int) -> None:
    there = sorted(order[:count])
    limits = Limits.of_rules([(PRECEDENCE[each][0], PRODUCE, float(each + 1)) for each in order[:count]])
    expected = Limit(float(there[0] + 1), PRECEDENCE[there[0]][1]) if there else None
    assert limits.of(PRODUCE, "u", "c") == expected
    assert limits.of(FETCH, "u", "c") is None


def test_the_rule_is_found_for_each_key_by_itself() -> None:
    limits = Limits.of_rules([(("u", "c"), PRODUCE, 1.0), ((ABSENT, DEFAULT), FETCH, 2.0)])
    assert limits.of(PRODUCE, "u", "c") == Limit(1.0, ("u", "c"))
    assert limits.of(FETCH, "u", "c") == Limit(2.0, (ABSENT, "c"))


def test_a_client_may_have_the_name_of_a_rule() -> None:
    limits = Limits.of_rules([((DEFAULT, ABSENT), PRODUCE, 1.0)])
    assert limits.of(PRODUCE, "default", "absent") == Limit(1.0, ("default", ABSENT))


def quotas(*rules: tuple[Who, QuotaKey, float], **groups: float) -> ClientQuotas:
    found = ClientQuotas(WINDOW, WINDOW)
    found.follow(Limits.of_rules(rules), groups)
    return found


def charge(found: ClientQuotas, user: str, client_id: str | None, amount: float, now_ms: int = 0) -> int:
    meter = found.client(user, client_id).produce
    assert meter is not None
    return meter.charge(amount, now_ms)


@pytest.mark.parametrize(
    ("rule", "other", "shares"),
    [
        (("u", ABSENT), ("u", "d"), True),
        (("u", DEFAULT), ("u", "d"), False),
        ((DEFAULT, ABSENT), ("v", "c"), False),
        ((ABSENT, "c"), ("v", "c"), True),
        ((ABSENT, DEFAULT), ("v", "c"), True),
        ((ABSENT, DEFAULT), ("u", "d"), False),
    ],
)
def test_who_shares_a_measure(rule: tuple[str | Part, str | Part], other: tuple[str, str], shares: bool) -> None:
    found = quotas((rule, PRODUCE, 100.0))
    assert charge(found, "u", "c", 1_000) == 0
    assert (charge(found, *other, 100) > 0) is shares


def test_no_client_id_is_the_empty_one() -> None:
    found = quotas((("u", ""), PRODUCE, 100.0))
    assert charge(found, "u", None, 1_000) == 0
    assert charge(found, "u", "", 100) == 1_000


def test_a_changed_quota_applies_at_once_to_what_was_used() -> None:
    found = quotas((("u", ABSENT), PRODUCE, 100.0))
    assert charge(found, "u", "c", 1_000) == 0
    assert found.follow(Limits.of_rules([(("u", ABSENT), PRODUCE, 50.0)]), {})
    assert charge(found, "u", "c", 0) == 10_000
    assert found.follow(Limits.of_rules([(("u", ABSENT), PRODUCE, 1_000.0)]), {})
    assert charge(found, "u", "c", 0) == 0


def test_a_view_without_news_forgets_nothing() -> None:
    rules = [(("u", ABSENT), PRODUCE, 100.0)]
    assert not quotas(*rules).follow(Limits.of_rules(rules), {})


def test_a_group_has_a_measure_of_its_own() -> None:
    found = quotas(((ABSENT, "g"), FETCH, 1.0), g=100.0)
    meter = found.group("g")
    assert meter is not None
    assert meter.charge(1_000, 0) == 0
    assert found.group("h") is None
    assert found.is_active
    assert not quotas().is_active


def test_the_time_of_requests_pauses_a_client_for_a_second_at_most() -> None:
    found = quotas((("u", ABSENT), QuotaKey.REQUEST_PERCENTAGE, 1.0))
    meter = found.client("u", "c").time
    assert meter is not None
    assert found.charge_time(meter, 100_000_000, 0) == 0
    assert found.charge_time(meter, 1_000_000, 0) == 100
    assert found.charge_time(meter, 10**12, 0) == 1_000
    assert [(each.responses, each.total_ms) for each in found.throttles] == [(2, 1_100)]


def test_a_measure_that_is_unused_for_an_hour_is_dropped() -> None:
    found = quotas((("u", DEFAULT), PRODUCE, 100.0))
    charge(found, "u", "c", 1)
    charge(found, "u", "d", 1, 1_000)
    found.forget_unused(3_600_000)
    assert len(found) == 1
    found.forget_unused(3_601_000)
    assert len(found) == 0


def test_ever_new_client_ids_do_not_fill_the_memory() -> None:
    measures: Measures[int, Rate] = Measures(lambda: Rate(WINDOW), limit=100)
    kept = measures.get(0, 0)
    for at in range(1, 1_000):
        assert measures.get(0, at) is kept  # in use, so it is not the one that has to go
        measures.get(at, at)
        assert len(measures) <= 100
    throttles = Throttles(max_series=3)
    for client in range(10):
        throttles.add("q", ("u", str(client)), 5)
    assert [each.responses for each in throttles] == [1, 1, 1, 7]
    assert throttles.left_out == 7


def test_long_client_ids_are_distinct() -> None:
    found = quotas((("u", DEFAULT), PRODUCE, 100.0))
    long = "x" * 32_000
    assert charge(found, "u", long + "1", 1_000) == 0
    assert charge(found, "u", long + "2", 1_000) == 0
    assert charge(found, "u", long + "1", 100) == 1_000
    assert len(short(long)) < 100
