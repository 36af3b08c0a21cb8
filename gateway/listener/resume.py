"""The offsets where streams ended when a gateway died or stopped, from which clients' next connections continue."""

from __future__ import annotations

from pathlib import Path

from muster.actors.tables.arrow import pc
from muster.actors.tables.reading import files, read
from muster.actors.tables.schemas.samples import SAMPLES
from muster.gateway.attribution.account import End

RECENT_MS = 60_000
"""How long before the start a stream may have ended to be continued."""
_COLUMNS = ("group", "member_id", "host", "client_id", "topic", "partition", "last_ts", "last_offset")


def ends(storage: Path, gateway: int, *, now_ms: int, flush_ms: int) -> list[End]:
    """For each group's client and partition, the end of what that gateway last sent, from the table of samples.

    ``flush_ms``: the longest duration of a sample, so how long before its end it may have begun. Raises TableDamaged,
    which names a file that cannot be read.
    """
    if not files(storage, SAMPLES, now_ms - RECENT_MS - flush_ms):
        return []
    table = read(storage, SAMPLES, now_ms - RECENT_MS - flush_ms, columns=("gateway", *_COLUMNS))
    of_ours = pc.and_(pc.equal(table["gateway"], gateway), pc.is_valid(table["group"]))
    rows = table.filter(of_ours).select(_COLUMNS).sort_by("last_ts").to_pylist()
    last: dict[tuple[str, str, str | None, str, int], End] = {}
    for row in rows:
        end = End(
            row["group"], row["member_id"], row["host"], row["client_id"], row["topic"], row["partition"],
            row["last_offset"] + 1,
        )  # fmt: skip
        last[end.group, end.host, end.client_id, end.topic, end.partition] = end
    return list(last.values())
