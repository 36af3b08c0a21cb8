"""Random histories of transactions in a partition, with the responses of a real Apache Kafka.

Replay one: pytest "tests/gateway/apis/transactions/test_histories.py::test_kafka_responded_the_same[7]".
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.gateway.apis.transactions.histories import PROPERTIES, RESPONSES, SEEDS, History, Response
from tests.gateway.serving import Serving

__all__ = ["PROPERTIES"]


@pytest.mark.parametrize("seed", SEEDS)
def test_kafka_responded_the_same(full: Serving, fresh: Callable[[str], str], seed: int) -> None:
    expected = json.loads(RESPONSES.read_text())[str(seed)]
    found = json.loads(json.dumps(History(full.client, full.create(fresh("t"), 1), seed).responses()))
    assert len(found) == len(expected)
    for of_kafka, of_muster in zip(expected, found, strict=True):
        if of_kafka[1] == "fetch":
            check_fetch(of_kafka, of_muster)
        else:
            assert of_muster == of_kafka


def check_fetch(of_kafka: Response, of_muster: Response) -> None:
    """Kafka's ends with a segment, and lists aborted transactions up to the end of that segment."""
    *rest, aborted, size_bytes = of_kafka
    *own_rest, own_aborted, own_size_bytes = of_muster
    assert own_rest == rest
    assert own_size_bytes >= size_bytes
    assert (own_aborted is None) == (aborted is None)
    if own_size_bytes == size_bytes and own_aborted is not None:
        assert [each for each in own_aborted if each not in aborted] == []
