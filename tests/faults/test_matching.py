"""Which requests a fault matches, and on which of them it acts."""

from __future__ import annotations

from typing import Any

import pytest

from muster.actors.faults import Fault
from muster.actors.faults.matching import Facts, drawn, fires, is_spent, matches, may_match, needs_facts
from muster.actors.faults.model import RequestFault

FACTS = Facts(
    groups=frozenset({"g", "h"}),
    members=frozenset({"m", "instance"}),
    topics={"t": frozenset({0, 2}), "u": frozenset()},
    offsets_partitions=frozenset({7, 9}),
)


def drop(**fields: Any) -> RequestFault:
    fault = Fault("drop", **fields)
    assert isinstance(fault, RequestFault)
    return fault


ACTS_ON = [2, 3, 15, 18, 24, 28]
"""Requests among the first 30 that the fault acts on: seed 17, probability 0.3."""


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ({}, True),
        ({"group": "g"}, True),
        ({"group": "h"}, True),
        ({"group": "x"}, False),
        ({"member": "instance"}, True),
        ({"member": "x"}, False),
        ({"topic": "t"}, True),
        ({"topic": "u"}, True),
        ({"topic": "x"}, False),
        ({"topic": "t", "partition": 2}, True),
        ({"topic": "t", "partition": 1}, False),
        ({"topic": "u", "partition": 0}, False),
        ({"partition": 9}, True),
        ({"partition": 2}, False),
        ({"group": "g", "member": "m", "topic": "t", "partition": 0}, True),
        ({"group": "g", "member": "x", "topic": "t", "partition": 0}, False),
    ],
)
def test_all_scopes_have_to_match(scope: dict[str, Any], expected: bool) -> None:
    fault = drop(**scope)
    assert matches(fault, FACTS) is expected
    assert needs_facts(fault) is bool(scope)


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ({}, True),
        ({"api": "Fetch"}, True),
        ({"api": "Produce"}, False),
        ({"gateway": 1}, True),
        ({"gateway": 2}, False),
        ({"client_id": "c"}, True),
        ({"client_id": "d"}, False),
    ],
)
def test_what_the_header_already_decides(scope: dict[str, Any], expected: bool) -> None:
    assert may_match(drop(**scope), gateway=1, api="Fetch", client_id="c") is expected


@pytest.mark.parametrize(
    ("when", "acts_on", "spent_after"),
    [
        ("always", [1, 2, 3, 4, 5], None),
        ("once", [1], 1),
        ({"nth": 3}, [3], 3),
        ({"probability": 1, "seed": 4}, [1, 2, 3, 4, 5], None),
    ],
)
def test_when(when: Any, acts_on: list[int], spent_after: int | None) -> None:
    fault = drop(when=when)
    assert [number for number in range(1, 6) if fires(fault, number)] == acts_on
    spent = [number for number in range(6) if is_spent(fault, number)]
    assert spent == ([] if spent_after is None else list(range(spent_after, 6)))


def test_a_seed_draws_the_same_for_ever() -> None:
    """These numbers must not change: users' plans replay by them."""
    fault = drop(when={"probability": 0.3, "seed": 17})
    assert [number for number in range(1, 31) if fires(fault, number)] == ACTS_ON
    assert drawn(17, 1) == 11515856248961897107


@pytest.mark.parametrize("probability", [0.01, 0.3, 0.9])
def test_a_probability_is_one(probability: float) -> None:
    fault = drop(when={"probability": probability, "seed": 1})
    share = sum(fires(fault, number) for number in range(1, 20_001)) / 20_000
    assert abs(share - probability) < 0.015


def test_seeds_are_independent() -> None:
    one, other = (
        [fires(drop(when={"probability": 0.5, "seed": seed}), number) for number in range(1, 2_001)] for seed in (1, 2)
    )
    assert 900 < sum(a == b for a, b in zip(one, other, strict=True)) < 1_100
