"""The hours of a table in the bucket, and which of their objects count.

``_files.json`` beside the objects of an hour says that; without it, all do, except merged ones. It is changed by its
ETag. So of two compactions (:mod:`muster.actors.tables.bucket.compaction`), also if one was paused for any time, one
has its result in it, and the other's merged object never counts. Objects that do not count stay for a while, for
readers that began before.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from muster.actors.object_storage.store import NoSuchObject, ObjectStore
from muster.actors.tables.hours import HOUR_MS, MERGED, Listing, TableDamaged, start_ms_of
from muster.actors.tables.rollup import hour_folder

FOLDER = "metrics/"
"""Beginning of the names of all objects of tables."""
FILES = "_files.json"
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class HourFiles:
    """The content of ``_files.json``."""

    merged: frozenset[str] = frozenset()
    """Merged files whose rows count; no other ones do."""
    superseded: Mapping[str, int] = field(default_factory=dict)
    """Files whose rows are in a merged one, with the time since when. Kept for as long as the hour: a late writer may
    create one again."""
    expired_ms: int | None = None
    """Since when nothing in the hour counts."""

    def encode(self) -> bytes:
        """Return the object; no two are equal, so that each writer knows its own."""
        values = {"merged": sorted(self.merged), "superseded": dict(self.superseded), "expired_ms": self.expired_ms}
        return json.dumps({**values, "nonce": secrets.token_hex(8)}, indent=1).encode()

    @classmethod
    def decode(cls, name: str, content: bytes) -> HourFiles:
        """Raise TableDamaged."""
        try:
            values = json.loads(content)
            superseded = {str(file): int(at_ms) for file, at_ms in values["superseded"].items()}
            expired_ms = None if values["expired_ms"] is None else int(values["expired_ms"])
            return cls(merged=frozenset(map(str, values["merged"])), superseded=superseded, expired_ms=expired_ms)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise TableDamaged(name, "does not say which files of its hour count") from error


@dataclass(frozen=True, slots=True)
class BucketHour:
    prefix: str
    """Beginning of its objects' names, with a slash at its end."""
    start_ms: int
    sizes: Mapping[str, int]
    """Bytes of its objects, by the rest of their names."""

    @property
    def end_ms(self) -> int:
        """Exclusive."""
        return self.start_ms + HOUR_MS

    def files(self) -> set[str]:
        """Return the names of its Parquet files, whether they count or not."""
        return {name for name in self.sizes if name.endswith(".parquet") and not name.startswith((".", "_"))}

    def live(self, said: HourFiles) -> set[str]:
        """Return the names of those that count, which may include merged files that were not listed yet."""
        written = {name for name in self.files() if not name.startswith(MERGED)}
        return (written | said.merged) - said.superseded.keys()


async def hours(
    store: ObjectStore, table: str, start_ms: int | None = None, end_ms: int | None = None
) -> list[BucketHour]:
    """Return the table's hours that overlap [start, end), oldest first. Raises Unavailable or Refused."""
    root = f"{FOLDER}{table}/"
    # From the hour before: SeaweedFS leaves out what is in a folder of that name.
    after = "" if start_ms is None else root + hour_folder(start_ms - HOUR_MS)
    sizes: dict[tuple[int, str], dict[str, int]] = {}
    async for listed in store.list(root, after):
        prefix, _, name = listed.name.rpartition("/")
        begins_ms = start_ms_of(PurePath(prefix))
        if begins_ms is None or prefix != root + hour_folder(begins_ms):
            continue
        if end_ms is not None and begins_ms >= end_ms:
            break
        if start_ms is None or begins_ms + HOUR_MS > start_ms:
            sizes.setdefault((begins_ms, f"{prefix}/"), {})[name] = listed.size_bytes
    return [BucketHour(prefix, begins_ms, found) for (begins_ms, prefix), found in sorted(sizes.items())]


async def read_files(store: ObjectStore, hour: BucketHour) -> tuple[HourFiles, str | None]:
    """Return what is said of the hour now, with the ETag, None if nothing is. Raises TableDamaged."""
    name = hour.prefix + FILES
    try:
        found = await store.read(name)
    except NoSuchObject:
        return HourFiles(), None
    return HourFiles.decode(name, found.content), found.etag


async def listing(store: ObjectStore, hour: BucketHour) -> tuple[BucketHour, Listing]:
    """Return the hour, listed again if that was necessary, and which of its files count.

    Raises TableDamaged if that cannot be determined; Unavailable or Refused.
    """
    for _ in range(_ATTEMPTS):
        if FILES not in hour.sizes:  # what came after the listing changes nothing: its files all exist for a while
            return hour, Listing(tuple(sorted(hour.live(HourFiles()))))
        said, etag = await read_files(store, hour)
        if etag is None or said.expired_ms is not None:
            return hour, Listing((), expired=True)
        live = hour.live(said)
        if live <= hour.sizes.keys():
            return hour, Listing(tuple(sorted(live)), tuple(sorted(hour.files() & said.superseded.keys())))
        sizes = {listed.name.removeprefix(hour.prefix): listed.size_bytes async for listed in store.list(hour.prefix)}
        hour = BucketHour(hour.prefix, hour.start_ms, sizes)
    raise TableDamaged(hour.prefix + FILES, "names merged files that do not exist")
