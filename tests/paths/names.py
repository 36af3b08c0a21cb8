"""Names of one coordinator: it is a process, and so is each further one that a test uses."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from muster.placement.hashing import partition_for

COORDINATORS = 4
"""Partitions of ``__consumer_offsets``, and of ``__transaction_state``."""
_PARTITION = 1
GROUPS_COORDINATOR = f"offsets-{_PARTITION}"
TRANSACTIONS_COORDINATOR = f"transactions-{_PARTITION}"
_numbers = itertools.count(1)


def fresh_name(kind: str) -> str:
    """Return a new name. A group or transactional id of that name has the coordinators above."""
    names: Iterator[str] = (f"{kind}-{number}" for number in _numbers)
    return next(name for name in names if partition_for(name, COORDINATORS) == _PARTITION)
