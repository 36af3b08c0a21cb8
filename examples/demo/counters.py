"""Amounts sent to each group, by the gateways' own counters."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families

Counted = Mapping[tuple[int, str], tuple[int, int]]
"""(gateway, group) -> messages and bytes: since that gateway's process started, or all that the tables have of it."""

_TIMEOUT_S = 10.0
_FAMILIES = ("muster_group_fetch_messages", "muster_group_fetch_bytes")


def counted(urls: Iterable[str]) -> Counted:
    """Read the counters of the gateways with these ``/metrics``. Raises OSError if one does not answer."""
    found: dict[tuple[int, str], list[int]] = {}
    for url in urls:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:
            text = response.read().decode()
        for family in text_string_to_metric_families(text):
            if family.name not in _FAMILIES:
                continue
            place = _FAMILIES.index(family.name)
            for sample in family.samples:
                if sample.name == f"{family.name}_total":
                    key = int(sample.labels["gateway"]), sample.labels["group"]
                    found.setdefault(key, [0, 0])[place] += int(sample.value)
    return {key: (messages, size_bytes) for key, (messages, size_bytes) in found.items()}


def differences(sent: Counted, first_life: Counted, at_end: Counted) -> Iterator[str]:
    """Yield the differences between the tables (``sent``) and the gateways' counters, in words.

    ``at_end`` is of the processes that run at the end; ``first_life`` has the last counters of the gateway that was
    killed. Its tables may have more, since it ran on until it was killed; all other tables must match exactly.
    """
    for key in sorted(sent.keys() | first_life.keys() | at_end.keys()):
        gateway, group = key
        was_killed = any(killed == gateway for killed, _ in first_life)
        in_tables = sent.get(key, (0, 0))
        in_counters = tuple(a + b for a, b in zip(first_life.get(key, (0, 0)), at_end.get(key, (0, 0)), strict=True))
        agree = (
            all(a >= b for a, b in zip(in_tables, in_counters, strict=True)) if was_killed else in_tables == in_counters
        )
        if not agree:
            yield f"gateway-{gateway}, {group}: {in_tables} messages and bytes in the tables, {in_counters} counted"
