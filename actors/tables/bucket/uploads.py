"""Moves finished Parquet files of this node to the bucket, each under its own name.

Files of one name always have the same rows, since a name stands for one spool (:mod:`muster.actors.tables.store`). So
an object that exists is that file, and every step can be repeated by any process: a file is created in the bucket, then
removed here. Two processes that do it at once do no harm; a lock lets one process of the node do it as a rule. That one
also writes what dead processes of the node left, since their successors may be on other nodes.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from muster.actors.object_storage.bucket import Bucket
from muster.actors.object_storage.location import Location
from muster.actors.object_storage.store import ObjectStorageError, ObjectStore, Taken
from muster.actors.tables.arrow import pa, pq
from muster.actors.tables.bucket.hours import FOLDER
from muster.actors.tables.hours import HOUR_MS, hours, names_in
from muster.actors.tables.orphans import adopt
from muster.actors.tables.reading import BUCKET
from muster.actors.tables.schemas import TABLES
from muster.actors.tables.store import AT_CLOSE

MAX_HELD_BYTES = 1 << 30
"""Limit of the files that wait for a bucket that is away or too slow; beyond it, the oldest ones are lost."""
_MAX_FILES = 1000
"""Limit of one round, after which this looks whether more wait than may."""
_AT_ONCE = 4
_EVERY_S = 2.0
_ADOPT_ROUNDS = 150
"""Number of rounds in five minutes, after which this looks for what dead processes left."""
_FINISH_S = 5.0
_LOCK = ".uploads.lock"

_log = logging.getLogger(__name__)


def finished(metrics: Path, owner: str | None = None) -> Iterator[Path]:
    """Yield the files that wait to be moved, of all tables; ``owner``: those of that one."""
    for table in TABLES:
        for hour in hours(metrics / table):
            for name in sorted(names_in(hour.path)):
                is_finished = name.endswith(".parquet") and not name.startswith((".", "_"))
                if is_finished and (owner is None or name.startswith(f"{owner}-")):
                    yield hour.path / name


async def upload(metrics: Path, store: ObjectStore, owner: str | None = None, *, max_files: int | None = None) -> int:
    """Move the files, some at a time, ``max_files`` in all. Returns how many.

    Raises ObjectStorageError or OSError after the requests that have begun: what is left is for the next call.
    """
    waiting, moved = iter(list(islice(finished(metrics, owner), max_files))), 0

    async def move_some() -> None:
        nonlocal moved
        for path in waiting:
            if await _move(path, store, FOLDER + path.relative_to(metrics).as_posix()):
                moved += 1

    for result in await asyncio.gather(*(move_some() for _ in range(_AT_ONCE)), return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
    return moved


async def _move(path: Path, store: ObjectStore, name: str) -> bool:
    try:
        content = await asyncio.to_thread(path.read_bytes)
    except FileNotFoundError:
        return False  # another process has moved it
    with contextlib.suppress(Taken):  # written by another release of pyarrow; the rows are the same
        await store.create(name, content)
    await asyncio.to_thread(path.unlink, missing_ok=True)
    return True


def drop_beyond(metrics: Path, max_bytes: int) -> None:
    """Remove the oldest files, by their hour, until the others have no more bytes. Logs what is lost."""
    held = []
    for path in finished(metrics):
        with contextlib.suppress(FileNotFoundError):
            held.append((path.parent.parent.name, path.parent.name, path.stat().st_mtime_ns, path, path.stat().st_size))
    left = sum(size for *_, size in held)
    lost: dict[tuple[str, str], int] = {}
    for date, hour, _, path, size in sorted(held):
        if left <= max_bytes:
            break
        place = path.parents[2].name, f"{date}/{hour}"
        lost[place] = lost.get(place, 0) + _rows(path)
        path.unlink(missing_ok=True)
        left -= size
    for (table, hour), rows in lost.items():
        _log.error("%d rows of %s are lost, of %s: the bucket was away or slow for too long", rows, table, hour)


def _rows(path: Path) -> int:
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowException):
        return 0


class Uploads:
    """The uploads of one process, in a thread of their own, from ``start`` on. The process may be killed at any time.

    Of the processes on a node, one at a time does the work; see :meth:`finish` for the others.
    """

    def __init__(self, metrics: Path, location: Location, *, now_ms: Callable[[], int]) -> None:
        self._metrics = metrics
        self._location = location
        self._now_ms = now_ms
        self._bucket: ObjectStore | None = None
        self._lock_fd: int | None = None
        self._trouble: str | None = None
        self._rounds = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tables-uploads", daemon=True)

    def start(self) -> None:
        """Start the thread, and have stores of this process finish with these uploads. Raises OSError."""
        self._metrics.mkdir(parents=True, exist_ok=True)
        (said := self._metrics / f"{BUCKET}.{os.getpid()}").write_text(str(self._location))
        said.replace(self._metrics / BUCKET)
        AT_CLOSE[self._metrics] = self.finish
        self._thread.start()

    def close(self) -> None:
        """End after the round in progress. A process that ends needs no call."""
        AT_CLOSE.pop(self._metrics, None)
        self._closed.set()
        self._thread.join()
        if self._lock_fd is not None:
            os.close(self._lock_fd)

    def finish(self, owner: str) -> None:
        """Move the owner's files now: this process, or the node, may be about to end.

        It takes seconds at most, nothing while the bucket is away, and raises nothing. What is left is moved by another
        process of the node, or by the next one.
        """
        if self._trouble is not None or next(finished(self._metrics, owner), None) is None:
            return
        try:
            asyncio.run(asyncio.wait_for(upload(self._metrics, self._store(), owner), _FINISH_S))
        except (ObjectStorageError, OSError) as error:
            why = str(error) or "no response"
            _log.warning("files of tables by %s wait on this node to be uploaded: %s", owner, why)

    def round(self) -> None:
        """Move everything that waits, and from time to time write what dead processes left. Logs a new trouble."""
        if self._rounds % _ADOPT_ROUNDS == 0:
            for problem in adopt(self._metrics, self._now_ms):
                _log.error("%s", problem)
        self._rounds += 1
        try:
            moved = asyncio.run(upload(self._metrics, self._store(), max_files=_MAX_FILES))
        except (ObjectStorageError, OSError) as error:
            if self._trouble is None:
                _log.error("files of tables wait on this node to be uploaded: %s", error)
            self._trouble = str(error)
            drop_beyond(self._metrics, MAX_HELD_BYTES)
            return
        if self._trouble is not None:
            _log.info("the files of tables that waited are uploaded")
        self._trouble = None
        if moved == _MAX_FILES:
            drop_beyond(self._metrics, MAX_HELD_BYTES)
        else:
            self._tidy()

    def _run(self) -> None:
        while not self._closed.wait(_EVERY_S):
            try:
                if self._is_ours():
                    self.round()
            except Exception:
                _log.exception("uploads of tables failed; they are tried again")

    def _is_ours(self) -> bool:
        """Whether this process has the lock of the node, which it then keeps."""
        if self._lock_fd is None:
            self._metrics.mkdir(parents=True, exist_ok=True)
            fd = os.open(self._metrics / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                return False
            self._lock_fd = fd
        return True

    def _store(self) -> ObjectStore:
        """Return the bucket. Raises Refused."""
        if self._bucket is None:
            self._bucket = ObjectStore(Bucket(self._location))
        return self._bucket

    def _tidy(self) -> None:
        """Remove the empty folders of hours that are long over: writers make those of the present again."""
        for table in TABLES:
            for hour in hours(self._metrics / table, None, self._now_ms() - 2 * HOUR_MS):
                with contextlib.suppress(OSError):
                    hour.path.rmdir()
                    hour.path.parent.rmdir()
