"""Series about transactions in a scrape, of the coordinators that FindCoordinator gives to the gateway."""

from __future__ import annotations

import re

from tests.gateway.apis.transactions.test_transaction_apis import add, end, init
from tests.gateway.group_client import Fresh
from tests.gateway.serving import Serving
from tests.zookeeper_fixture import eventually


def series(full: Serving, transactional_id: str) -> dict[str, float]:
    """Return the series of that id's coordinator, by name and remaining labels.

    A scrape is without those that respond late.
    """
    full.reachable()
    partition = full.gateway.transactions_partition_of(transactional_id)
    pattern = rf'^(muster_trans\w+){{gateway="1",transactions_partition="{partition}",?(.*)}} (\S+)$'

    def scraped() -> list[tuple[str, str, str]]:
        status, text = full.http("/metrics")
        assert status == 200
        return re.findall(pattern, text, re.MULTILINE)

    return {name + labels: float(value) for name, labels, value in eventually(scraped, "the coordinator responds")}


def test_an_open_transaction_ages_until_it_ends(full: Serving, fresh: Fresh) -> None:
    topic, name = full.create(fresh("topic")).name, fresh("txn")
    producer = (name, *init(full, name)[1:])
    found = series(full, name)
    assert found['muster_transactional_idsstate="Empty"'] == 1
    assert found["muster_transaction_oldest_seconds"] == 0
    assert found["muster_transaction_coordinator_load_seconds"] >= 0
    add(full, producer, (topic, 0))
    found = series(full, name)
    assert found['muster_transactional_idsstate="Ongoing"'] == 1
    assert found["muster_transaction_oldest_seconds"] > 0
    end(full, producer, committed=True)
    eventually(lambda: series(full, name)['muster_transactions_completed_totaloutcome="commit"'] == 1, "it is complete")
    found = series(full, name)
    assert found['muster_transactional_idsstate="Ongoing"'] == found["muster_transaction_markers_failed_total"] == 0
    assert found["muster_transaction_oldest_seconds"] == 0
    assert found['muster_transactions_completed_totaloutcome="abort"'] == 0
    add(full, producer, (topic, 0))
    init(full, name)
    assert series(full, name)['muster_transactions_fenced_totalcause="another InitProducerId"'] == 1
