"""A stream's checkpoint: Spark's own, and the checks that Spark does not make.

* One driver at a time: a lock that the kernel releases with the process.
* Output and checkpoint belong together: batch 7 of another checkpoint is another batch 7, so a pair that was not made
  together is refused.
* No rows are missed: a stream reads the files as the actors wrote them, and compaction removes these some time after
  their hour. A stream that has not read a removed file is refused. Spark's own logs show which files it read:
  ``sources/0``, ``offsets`` and ``commits`` below its checkpoint, one JSON object per line.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.actors.runtime.files import write_atomically
from muster.actors.tables.hours import MERGED, Manifest, hours, manifest_of

_IDENTITY = "_stream.json"
_LOCK = "_lock"
_GONE_BEFORE = "_gone_before"


class StreamRefused(RuntimeError):
    """Raised if the stream cannot be started or continued as requested; the message is one line with the remedy."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Checkpoint held by this process from :meth:`open` to :meth:`release`, or to its end."""

    path: Path
    lock_fd: int

    @classmethod
    def open(cls, path: Path, output: Path, tables: Sequence[str]) -> Checkpoint:
        """Open the checkpoint of a stream of ``tables`` that writes to ``output``; created if necessary.

        Raises StreamRefused or OSError.
        """
        path.mkdir(parents=True, exist_ok=True)
        fd = os.open(path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _belong_together(path, output, tables)
        except BlockingIOError as error:
            os.close(fd)
            raise StreamRefused(f"the stream of {path} is running already, in another process") from error
        except BaseException:
            os.close(fd)
            raise
        return cls(path, fd)

    def release(self) -> None:
        """Release it. This object must not be used afterwards."""
        os.close(self.lock_fd)

    def of_table(self, table: str) -> Path:
        """Return Spark's own checkpoint for the query over ``table``."""
        return self.path / table

    def check(self, folder: Path) -> None:
        """Raise StreamRefused if files of the table in ``folder`` were removed that its query has not read.

        Files removed before the first start of the query do not count: those hours are incomplete in its output.
        """
        table = folder.name
        before = self.path / f"{table}{_GONE_BEFORE}.json"
        merged = set(_merged(folder))
        known = _read(before)
        if known is None:
            _write(before, {"files": sorted(name for name in merged if not (folder / name).exists())})
            return
        unread = merged - set(known["files"]) - _files_read(self.of_table(table))
        missed = sorted(name for name in unread if not (folder / name).exists())
        if missed:
            raise StreamRefused(
                f"{len(missed)} files of {table}, the first of them {missed[0]}, were compacted before the stream of "
                f"{self.path} had read them: it would miss their rows. Begin it anew with another output, or run the "
                "batch job. A stream may be down at most for metrics.compaction.delay.ms plus "
                "metrics.compaction.grace.ms"
            )


def _merged(folder: Path) -> Iterator[str]:
    """Yield ``date=.../hour=.../<name>`` of every file of a table whose rows are in a merged file."""
    for hour in hours(folder):
        for merged in hour.path.glob(f"{MERGED}*.parquet"):
            try:
                names = Manifest.read(manifest_of(merged)).files
            except FileNotFoundError:
                continue  # just replaced by another one, which lists more
            yield from (f"{_place(hour.path)}/{name}" for name in names if not name.startswith(MERGED))


def _files_read(checkpoint: Path) -> set[str]:
    """Return ``date=.../hour=.../<name>`` of every file whose rows are in a batch that Spark will not run again."""
    done = _offset_done(checkpoint)
    found = set()
    for log in checkpoint.glob("sources/0/[0-9]*"):
        for line in log.read_text(encoding="utf-8").splitlines()[1:]:  # the first one is the log's version
            entry = json.loads(line)
            if entry["batchId"] <= done:
                path = Path(entry["path"])
                found.add(f"{_place(path.parent)}/{path.name}")
    return found


def _offset_done(checkpoint: Path) -> int:
    """Return the source's offset at the last batch that is recorded as done; -1 if there is none."""
    batches = [int(path.name) for path in checkpoint.glob("commits/[0-9]*")]
    if not batches:
        return -1
    of_source = (checkpoint / "offsets" / str(max(batches))).read_text(encoding="utf-8").splitlines()[-1]
    return int(json.loads(of_source)["logOffset"])


def _place(hour: Path) -> str:
    return f"{hour.parent.name}/{hour.name}"


def _belong_together(checkpoint: Path, output: Path, tables: Sequence[str]) -> None:
    theirs, ours = _read(output / _IDENTITY), _read(checkpoint / _IDENTITY)
    if theirs is None and ours is None:
        theirs = {"id": uuid.uuid4().hex, "tables": list(tables)}
        output.mkdir(parents=True, exist_ok=True)
        _write(output / _IDENTITY, theirs)
    if ours is None and not any(output.glob("*/batch-*")):
        ours = theirs  # new, or killed before anything was read
        _write(checkpoint / _IDENTITY, ours or {})
    if ours is None or ours != theirs:
        raise StreamRefused(
            f"the output {output} and the checkpoint {checkpoint} do not belong together: name new ones"
        )
    if ours["tables"] != list(tables):
        raise StreamRefused(f"{checkpoint} is of a stream of {', '.join(ours['tables'])}, not of {', '.join(tables)}")


def _read(path: Path) -> dict[str, Any] | None:
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise StreamRefused(f"{path} is damaged: {error}") from error
    return values


def _write(path: Path, values: dict[str, Any]) -> None:
    write_atomically(path, json.dumps(values), mode=0o644)
