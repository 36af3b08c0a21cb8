"""Clients with quotas get what they get from Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from muster.gateway.security.credentials import write
from muster.gateway.security.scram import SCRAM_MECHANISMS, ScramCredential
from tests.gateway.authorization.world import ADMIN, PASSWORD
from tests.gateway.quotas.cases import played, recorded
from tests.gateway.quotas.world import USERS, World
from tests.gateway.serving import Serving


def PROPERTIES(storage: Path) -> dict[str, str]:
    mechanism = next(iter(SCRAM_MECHANISMS))
    credential = {mechanism: ScramCredential.of_password(mechanism, PASSWORD)}
    file = storage / "users.properties"
    write(file, dict.fromkeys((ADMIN, *USERS), credential))
    return {"sasl.enabled.mechanisms": "PLAIN", "sasl.credentials.file": str(file)}


@pytest.fixture(scope="module")
def found(full: Serving) -> Iterator[dict[str, dict[str, Any]]]:
    with World(full.reachable()) as world:
        world.prepare()
        yield played(world)


class Difference(NamedTuple):
    """Difference between Muster and Kafka, on purpose."""

    case: str
    kafka: Any
    muster: Any
    why: str


DIFFERENCES = (
    Difference(
        'requests: alter [[["user", "u"], ["user", "v"]], {"producer_byte_rate": 1}]',
        ["none", None],
        ["invalid_request", "Invalid client quota entity, duplicate entity entry user"],
        "Kafka takes the last one",
    ),
    Difference(
        'requests: alter [[["user", "u"], ["ip", "10.0.0.1"]], {"producer_byte_rate": 1}]',
        ["invalid_request", "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"],
        ["invalid_request", "Invalid quota entity combination, IP entity should not be combined with User or ClientId"],
        "a slip of the pen",
    ),
    Difference(
        'requests: alter [[["user", "tiny"]], {"producer_byte_rate": 1e-09}]',
        ["none", None],
        ["invalid_request", "producer_byte_rate cannot be a fractional value."],
        "a client could do nothing in a lifetime",
    ),
    *(
        Difference(
            f"mutations: {case}, validated only",
            [["throttling_quota_exceeded"], 3, True],
            [["none"], 0, False],
            "what changes nothing is charged nothing",
        )
        for case in ("CreateTopics v7, one topic", "CreatePartitions v3, one partition")
    ),
)


def test_all_outcomes_are_kafkas(found: dict[str, dict[str, Any]]) -> None:
    kafkas, musters = _flat(recorded()), _flat(found)
    assert musters.keys() == kafkas.keys()
    different = {case: (kafkas[case], musters[case]) for case in kafkas if musters[case] != kafkas[case]}
    assert different == {each.case: (each.kafka, each.muster) for each in DIFFERENCES}


def test_every_combination_of_a_clients_quotas_is_there() -> None:
    throttle_times = recorded()["precedence"]
    assert len(throttle_times) == 256
    assert len(set(throttle_times.values())) == 9


def _flat(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {f"{part}: {case}": outcome for part, cases in found.items() for case, outcome in cases.items()}
