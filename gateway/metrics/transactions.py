"""The transactions in a scrape, as returned by their coordinators while it runs.

One gateway reports each partition of ``__transaction_state``: the one that FindCoordinator returns for it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from muster.actors.transactions.state import TransactionState
from muster.gateway.listener.gateway import Gateway
from muster.gateway.listener.queries import query_coordinators
from muster.gateway.metrics.exposition import Exposition, labels
from muster.gateway.metrics.families import TRANSACTIONS as FAMILIES
from muster.gateway.metrics.groups import DEADLINE_S, exposed_here
from muster.placement.view import TRANSACTIONS

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TransactionScrape:
    """Responses of one gateway's coordinators, by partition."""

    snapshots: dict[int, dict[str, Any]]

    def write(self, out: Exposition) -> None:
        """Write all families."""
        out.begin(FAMILIES)
        for partition, snapshot in self.snapshots.items():
            try:
                _write(out, labels(transactions_partition=partition), snapshot)
            except (KeyError, TypeError) as error:
                log.error("transactions-%d says what this gateway cannot read: %r", partition, error)


async def scrape_transactions(gateway: Gateway) -> TransactionScrape:
    """Query the actors, for DEADLINE_S at most. Those that do not respond are counted in the gateway's metrics."""
    view = gateway.view
    up = [each for each in exposed_here(view, gateway.id, TRANSACTIONS) if view.transactions[each] is not None]
    responses, missing = await query_coordinators(gateway, {"ask": "metrics"}, DEADLINE_S, up, TRANSACTIONS)
    for partition in missing:
        gateway.metrics.group_scrape_error(f"transactions-{partition}")
    return TransactionScrape(responses)


def _write(out: Exposition, here: str, snapshot: dict[str, Any]) -> None:
    for state in TransactionState:
        count = snapshot["states"].get(state.title, 0)
        out.add("muster_transactional_ids", f'{here},state="{state.title}"', count)
    out.add("muster_transaction_oldest_seconds", here, snapshot["oldest_ms"] / 1000)
    out.add("muster_transaction_coordinator_load_seconds", here, snapshot["load_ms"] / 1000)
    for outcome, count in snapshot["completed"].items():
        out.add("muster_transactions_completed_total", f'{here},outcome="{outcome}"', count)
    for cause, count in snapshot["fenced"].items():
        out.add("muster_transactions_fenced_total", f'{here},cause="{cause}"', count)
    out.add("muster_transaction_markers_failed_total", here, snapshot["failed_markers"])
