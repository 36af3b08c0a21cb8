"""Every API lets clients do what Kafka lets them do, and refuses the rest with Kafka's errors in the same places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from muster.gateway.listener.api import APIS
from muster.gateway.security.credentials import write
from muster.gateway.security.scram import SCRAM_MECHANISMS, ScramCredential
from tests.gateway.authorization.recorded import Outcome, is_message, played, recorded
from tests.gateway.authorization.world import ADMIN, PASSWORD, USERS, World
from tests.gateway.serving import Serving


def PROPERTIES(storage: Path) -> dict[str, str]:
    credentials = {mechanism: ScramCredential.of_password(mechanism, PASSWORD) for mechanism in SCRAM_MECHANISMS}
    file = storage / "users.properties"
    write(file, dict.fromkeys(USERS, credentials))
    return {
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.credentials.file": str(file),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN}",
        "group.initial.rebalance.delay.ms": "0",
    }


class Difference(NamedTuple):
    """Difference between Muster and Kafka, on purpose."""

    case: str
    """Begins the names of the cases."""
    why: str
    is_expected: Callable[[str, Any, Any], bool]
    """Predicate over a place, Kafka's value there and Muster's."""


DIFFERENCES = (
    Difference(
        "Fetch v12, as a follower, c-cluster_action",
        "any client reads from any gateway",
        lambda _, kafka, muster: (kafka, muster) == ("NOT_LEADER_OR_FOLLOWER", "NONE"),
    ),
    Difference(
        "Metadata v9, auto-create",
        "the response waits for the new topic",
        lambda _, kafka, muster: kafka in ("UNKNOWN_TOPIC_OR_PARTITION", None) and muster == "NONE",
    ),
    Difference(
        "ListPartitionReassignments",
        "a refusal does not repeat the request",
        lambda _, kafka, muster: (kafka, muster) == ("LISTED", None),
    ),
)


@pytest.fixture(scope="module")
def found(full: Serving) -> Iterator[dict[str, Outcome]]:
    with World(full.reachable()) as world:
        world.prepare()
        yield dict(played(world, APIS))


def test_all_of_kafkas_decisions(found: dict[str, Outcome]) -> None:
    expected = recorded()
    assert found.keys() == expected.keys()
    different = {case: _different(case, expected[case], outcome) for case, outcome in found.items()}
    assert {case: places for case, places in different.items() if places} == {}


def test_every_difference_is_there(found: dict[str, Outcome]) -> None:
    """None is left over that is none any more."""
    expected = recorded()
    for difference in DIFFERENCES:
        cases = [case for case in found if case.startswith(difference.case)]
        assert any(found[case] != expected[case] for case in cases), difference.why


def _different(case: str, kafka: Outcome, muster: Outcome) -> dict[str, tuple[Any, Any]]:
    """Kafka's value and Muster's, by place. A message is compared where Kafka has one of words."""
    places = [place for place in {**kafka, **muster} if place in kafka or not is_message(place)]
    values = {place: (kafka.get(place), muster.get(place)) for place in places}
    rules = [each.is_expected for each in DIFFERENCES if case.startswith(each.case)]
    return {
        place: pair
        for place, pair in values.items()
        if pair[0] != pair[1] and not any(is_expected(place, *pair) for is_expected in rules)
    }
