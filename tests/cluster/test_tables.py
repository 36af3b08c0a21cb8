"""Maintenance of the tables in the reconciler's process of a running Muster."""

from __future__ import annotations

import shutil
import time

from muster.actors.tables.hours import listing
from tests.muster_process import Muster, eventually
from tests.tables.making import put

TWO_DAYS_MS = 2 * 86_400_000


def test_an_hour_of_the_day_before_yesterday_becomes_one_file(muster: Muster) -> None:
    ts_ms = time.time_ns() // 1_000_000 - TWO_DAYS_MS
    (folder,) = {put(muster.storage, f"log-{number}", [number], ts_ms=ts_ms).parent for number in range(3)}
    try:
        eventually(
            lambda: listing(folder).live,
            lambda names: [name.partition("-")[0] for name in names] == ["merged"],
            "the reconciler's process merges them",
        )
    finally:
        shutil.rmtree(folder.parent, ignore_errors=True)
