"""Batches that Kafka refuses are refused, and those that it accepts accepted, with the same content in the log."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.gateway.apis.produced.cases import TOPICS, UNSOUND, Outcome, played, recorded
from tests.gateway.serving import Serving

POISON = [name for name, outcome in recorded().items() if "unreadable" in outcome.get("stored", ())]
"""Accepted by Kafka, and no consumer can read them."""


def expected(case: str, kafkas: Outcome) -> Outcome:
    """Muster's outcome, where it is another on purpose."""
    if case == "codec 5":
        return {"error": "unsupported_compression_type"}  # an error of Kafka's protocol, without a guess
    if case == "log append time":
        return {"error": "invalid_timestamp"}  # Kafka clears the attribute
    if case == "overflow, unbounded":
        return recorded()["overflow, plain"]  # Kafka stores a time far in the past
    if case.rpartition(",")[0] in UNSOUND:
        return {"error": "invalid_record"}  # Kafka accepts some, and takes some for its own failure
    if kafkas == {"error": "unknown_server_error"}:
        return {"error": "invalid_record"}
    return kafkas


@pytest.fixture(scope="module")
def found(full: Serving) -> dict[str, Outcome]:
    for name, configs in TOPICS.items():
        config: dict[str, Any] = {key.replace(".", "_"): value for key, value in configs.items()}
        full.create(name, **config)
    return played(full.client, round(time.time() * 1000), str)


def test_every_case_is_recorded(found: dict[str, Outcome]) -> None:
    assert found.keys() == recorded().keys()
    assert POISON


def test_the_outcome_is_kafkas(found: dict[str, Outcome]) -> None:
    wanted = {case: expected(case, outcome) for case, outcome in recorded().items()}
    assert {case: (outcome, wanted[case]) for case, outcome in found.items() if outcome != wanted[case]} == {}
