"""Counts of a gateway, read from its metrics."""

from __future__ import annotations

import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from tests.attribution.truth import PENDING, Books

_SCRAPE_S = 20.0


def scrape(url: str, unit: str = "bytes") -> Books:
    """Read the counts of one gateway's metrics, in bytes or messages. Raises URLError."""
    counted, unattributed = f"muster_group_fetch_{unit}_total", f"muster_unattributed_fetch_{unit}_total"
    waiting = f"muster_pending_fetch_{unit}"
    books = Books()
    with urllib.request.urlopen(url, timeout=_SCRAPE_S) as response:
        families = text_string_to_metric_families(response.read().decode())
    for sample in (sample for family in families for sample in family.samples):
        if sample.name not in (counted, unattributed, waiting):
            continue
        place = (sample.labels["topic"], int(sample.labels["partition"]))
        if sample.name == counted:
            books.groups[sample.labels["group"], place] += int(sample.value)
            books.evidence[sample.labels["evidence"], place] += int(sample.value)
        else:
            books.reasons[sample.labels.get("reason", PENDING), place] += int(sample.value)
    return books
