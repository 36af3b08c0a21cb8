"""The examples of docs/testing-consumers.md, on the shared cluster of the tests."""

from __future__ import annotations

from examples.test_orders import (
    test_an_order_is_lost_by_committing_first,
    test_an_order_whose_commit_is_lost_is_shipped_twice,
    test_no_order_is_lost_by_committing_after,
    topic,
)
from pytest_muster.plugin import muster_faults

__all__ = [
    "muster_faults",
    "test_an_order_is_lost_by_committing_first",
    "test_an_order_whose_commit_is_lost_is_shipped_twice",
    "test_no_order_is_lost_by_committing_after",
    "topic",
]
