"""The offsets where streams ended when a gateway died or stopped, from which clients' next connections continue."""

from __future__ import annotations

from pathlib import Path

from muster.actors.object_storage.location import Location
from muster.actors.tables.arrow import pa, pc
from muster.actors.tables.bucket.reading import TableInBucket
from muster.actors.tables.reading import TableDamaged, files, read
from muster.actors.tables.schemas.samples import SAMPLES
from muster.gateway.attribution.account import End

RECENT_MS = 60_000
"""How long before the start a stream may have ended to be continued."""
_ATTEMPTS = 5
_MAX_OBJECTS = 100
"""The newest ones, of which each has the samples of a flush."""
_COLUMNS = ("group", "member_id", "host", "client_id", "topic", "partition", "last_ts", "last_offset")


def ends(storage: Path, gateway: int, *, now_ms: int, flush_ms: int, bucket: Location | None = None) -> list[End]:
    """For each group's client and partition, the end of what that gateway last sent, from the table of samples.

    ``flush_ms``: the longest duration of a sample, so how long before its end it may have begun. ``bucket``: where the
    table is, but for what this node has not moved there. Raises TableDamaged, which names a file that cannot be read;
    OSError if the bucket does not respond.
    """
    since_ms = now_ms - RECENT_MS - flush_ms
    tables = [_read(storage, since_ms)] if bucket is None else [_not_moved(storage, since_ms)]
    if bucket is not None:  # after the node's own, which move there
        tables.append(_moved(TableInBucket(bucket, SAMPLES), gateway, since_ms))
    found = [table for table in tables if table is not None]
    if not found:
        return []
    table = pa.concat_tables(found)
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


def _read(storage: Path, since_ms: int) -> pa.Table | None:
    """Return None without importing anything if there are no files."""
    if not files(storage, SAMPLES, since_ms):
        return None
    return read(storage, SAMPLES, since_ms, columns=("gateway", *_COLUMNS))


def _not_moved(storage: Path, since_ms: int) -> pa.Table | None:
    for _ in range(_ATTEMPTS):
        try:
            return _read(storage, since_ms)
        except (TableDamaged, FileNotFoundError):
            continue  # most likely moved meanwhile
    return _read(storage, since_ms)


def _moved(table: TableInBucket, gateway: int, since_ms: int) -> pa.Table | None:
    names: list[str] = []
    for _, hour in sorted(table.hours(since_ms, None).items()):
        prefix, live = table.live(hour)
        names += (prefix + name for name in sorted(live) if name.startswith(f"gateway-{gateway}-"))
    recent = pc.field("ts") >= pa.scalar(since_ms, pa.timestamp("ms", tz="UTC"))
    return table.read(names[-_MAX_OBJECTS:], ("gateway", *_COLUMNS), recent) if names else None
