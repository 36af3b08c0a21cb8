"""Where a gateway's streams ended when it last served, according to the table of samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.actors.tables.spool import Sample, SampleStore
from muster.gateway.attribution.account import End
from muster.gateway.listener.resume import ends
from tests.tables.killing import die

NOW_MS = 1_700_000_000_000
FLUSH_MS = 10_000


def sample(group: str | None, at_ms: int, first: int, last: int, partition: int = 0) -> Sample:
    return Sample(
        ts_ms=at_ms,
        group=group,
        member_id=group and "m",
        client_id="rdkafka",
        host="10.0.0.1",
        topic="t",
        partition=partition,
        evidence="assignment" if group else "none",
        reason=None if group else "ambiguous",
        messages=last - first + 1,
        bytes=100,
        first_offset=first,
        last_offset=last,
    )


def store(folder: Path, gateway: int) -> SampleStore:
    return SampleStore(folder / "metrics", gateway, flush_ms=FLUSH_MS, now_ms=lambda: NOW_MS)


@pytest.mark.parametrize("orderly", [True, False])
def test_each_groups_stream_is_gone_on_with_where_it_ended(tmp_path: Path, orderly: bool) -> None:
    """Samples that a killed gateway had not flushed are recovered when its successor opens its store."""
    before = store(tmp_path, 1)
    for one in (
        sample("a", NOW_MS - 9_000, 0, 9),
        sample("a", NOW_MS - 8_000, 10, 19),
        sample("a", NOW_MS - 7_000, 5, 7),  # it moved back
        sample("b", NOW_MS - 6_000, 0, 3, partition=1),
        sample(None, NOW_MS - 5_000, 0, 99),
        sample("long-ago", NOW_MS - 10 * 60_000, 0, 99),
    ):
        before.add(one)
    other = store(tmp_path, 2)
    other.add(sample("elsewhere", NOW_MS - 5_000, 0, 99))
    other.close()
    if orderly:
        before.close()
    else:
        die(before)
        store(tmp_path, 1).close()
    found = ends(tmp_path, 1, now_ms=NOW_MS, flush_ms=FLUSH_MS)
    assert sorted(found) == [
        End("a", "m", "10.0.0.1", "rdkafka", "t", 0, 8),
        End("b", "m", "10.0.0.1", "rdkafka", "t", 1, 4),
    ]


def test_a_gateway_that_never_served_has_none(tmp_path: Path) -> None:
    assert ends(tmp_path, 1, now_ms=NOW_MS, flush_ms=FLUSH_MS) == []
