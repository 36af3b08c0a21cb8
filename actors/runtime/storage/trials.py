"""Tries on one node what a file system must promise (:class:`FilePromise`), with the calls that Muster makes.

What cannot be tried: whether what fsync reported as durable survives a power failure.
"""

from __future__ import annotations

import fcntl
import functools
import mmap
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.actors.runtime.storage.promises import Broken, FilePromise, Finding, doing, tried

PREFIX = ".muster-check-"
"""How the names of the temporary folders begin in which everything is tried."""
_BLOCK = 4096
_SYNCS = 50
_RENAMES = 200
_PROCESS_S = 30
_RELEASE_S = 2.0
"""How long the lock of a killed process may stay."""
_POLL_S = 0.02
_MISSING_S = 1.0
"""How long a name that is being replaced may be missing. The Linux client of NFS removes it for a moment."""


@contextmanager
def trial_folder(directory: Path) -> Iterator[Path]:
    """Yield a folder in the directory, removed afterwards. Raises OSError if there can be none."""
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=directory, ignore_cleanup_errors=True) as name:
        yield Path(name)


def check(directory: Path, *, thorough: bool = False) -> list[Finding]:
    """Try everything that one node can. Raises OSError if no folder can be created there.

    ``thorough``: measure as well, with other processes and readers; a second or more instead of milliseconds.
    """
    with trial_folder(directory) as folder:
        return [tried(promise, functools.partial(trial, folder, thorough)) for promise, trial in _TRIALS]


def _sync(folder: Path, thorough: bool) -> str | None:
    fd = os.open(folder / "synced", os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        taken_ms = []
        for number in range(_SYNCS if thorough else 1):
            os.pwrite(fd, bytes(_BLOCK), number * _BLOCK)
            started = time.perf_counter_ns()
            with doing("fdatasync of a file"):
                os.fdatasync(fd)
            taken_ms.append((time.perf_counter_ns() - started) / 1_000_000)
        with doing("fsync of a file"):
            os.fsync(fd)
        with doing("fsync of a directory"):
            _sync_directory(folder)
    finally:
        os.close(fd)
    return f"fdatasync of 4 KiB: {statistics.median(taken_ms):.2f} ms (median), {max(taken_ms):.2f} ms at most"


def _sync_directory(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _rename(folder: Path, thorough: bool) -> str | None:
    path = folder / "renamed"
    path.write_bytes(_content(0))
    with path.open("rb", buffering=0) as before:
        with doing("rename over an existing file"):
            _replace(path, 1)
        if path.read_bytes() != _content(1):
            raise Broken("an open after a rename found the content from before it")
        if before.read() != _content(0):
            raise Broken("a rename copied the content into the file that it should have replaced")
    (folder / "hidden").mkdir()
    (folder / "hidden" / "file").touch()
    with doing("rename of a directory"):
        (folder / "hidden").rename(folder / "shown")
    if not (folder / "shown" / "file").exists():
        raise Broken("a renamed directory lost its files")
    return _rename_while_read(path) if thorough else None


def _content(number: int) -> bytes:
    return bytes([number % 256]) * _BLOCK


def _replace(path: Path, number: int) -> None:
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_bytes(_content(number))
    temporary.replace(path)


def _rename_while_read(path: Path) -> str | None:
    """Replace a file while others read it. Raises Broken if a reader finds none for long, or one that is not whole."""
    done = threading.Event()
    seen: list[str] = []
    missed = 0

    def read() -> None:
        nonlocal missed
        while not done.is_set() and not seen:
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                missed += 1
                until = time.monotonic() + _MISSING_S
                while not path.exists():
                    if time.monotonic() > until:
                        seen.append(f"a name that was being replaced was missing for {_MISSING_S:g} s")
                        return
                continue
            except OSError as error:
                seen.append(f"reading a file that was being replaced failed: {error.strerror}")
                return
            if len(content) != _BLOCK or len(set(content)) != 1:
                seen.append("a reader found a file that was being replaced, and not the whole of it")

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        for number in range(2, _RENAMES):
            if seen:
                break
            _replace(path, number)
    finally:
        done.set()
        reader.join(_PROCESS_S)
    if seen:
        raise Broken(seen[0])
    return f"a reader found the name missing for a moment, {missed} times" if missed else None


def _create(folder: Path, thorough: bool) -> str | None:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    os.close(os.open(folder / "once", flags, 0o600))
    try:
        os.close(os.open(folder / "once", flags, 0o600))
    except FileExistsError:
        return None
    raise Broken("a name that exists could be created again (O_EXCL)")


def _remove(folder: Path, thorough: bool) -> str | None:
    path = folder / "removed"
    path.write_bytes(_content(1))
    with path.open("rb", buffering=0) as reader:
        path.unlink()
        with doing("reading a file that is open and was removed"):
            if reader.read() != _content(1):
                raise Broken("a file that is open and was removed lost its content")
    if path.exists():
        raise Broken("a name was still there after it was removed")
    return None


def _write(folder: Path, thorough: bool) -> str | None:
    path = folder / "written"
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(fd, _content(2), _BLOCK)
        os.pwrite(fd, _content(1), 0)
        os.ftruncate(fd, _BLOCK + 1)
        if path.read_bytes() != _content(1) + _content(2)[:1]:
            raise Broken("what was written at positions of a file is not there (pwrite, ftruncate)")
    finally:
        os.close(fd)
    lines = folder / "lines"
    with lines.open("ab", buffering=0) as one, lines.open("ab", buffering=0) as other:
        for writer, line in ((one, b"1"), (other, b"2"), (one, b"3")):
            writer.write(line)
    if lines.read_bytes() != b"123":
        raise Broken("lines that were appended overwrote each other (O_APPEND)")
    return None


def _mapping(folder: Path, thorough: bool) -> str | None:
    path = folder / "mapped"
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        with doing("reserving space (posix_fallocate)"):
            os.posix_fallocate(fd, 0, _BLOCK)
        with doing("mapping a file (mmap, MAP_SHARED)"), mmap.mmap(fd, _BLOCK, mmap.MAP_SHARED) as mapped:
            mapped[:8] = b"a store."
            with path.open("rb", buffering=0) as reader:
                if reader.read(8) != b"a store.":
                    raise Broken("a store in a mapped file was not seen by a reader")
    finally:
        os.close(fd)
    return None


def _lock(folder: Path, thorough: bool) -> str | None:
    path = folder / "lock"
    with path.open("ab") as one, path.open("ab") as other:
        with doing("flock"):
            fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_free(path):
            raise Broken("a lock that is held was granted a second time (flock)")
        one.close()
        with doing("taking a lock that was released (flock)"):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return _after_a_kill(folder) if thorough else None


def _is_free(path: Path) -> bool:
    with path.open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _after_a_kill(folder: Path) -> str | None:
    """Another process locks, appends and stores, and is killed."""
    lock, line, mapped = (folder / f"other-{name}" for name in ("lock", "line", "mapped"))
    command = [sys.executable, "-I", "-c", _OTHER_PROCESS, *map(str, (lock, line, mapped))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            if (state := other.stdout.readline()) not in (b"mapped\n", b"not mapped\n"):
                raise Broken("another process could not lock and append to files there")
            if _is_free(lock):
                raise Broken("a lock that another process holds was granted a second time (flock)")
        finally:
            other.kill()
    until = time.monotonic() + _RELEASE_S
    while not _is_free(lock):
        if time.monotonic() > until:
            raise Broken(f"the lock of a killed process was still held after {_RELEASE_S:g} s (flock)")
        time.sleep(_POLL_S)
    if line.read_bytes() != b"a line" or (state == b"mapped\n" and mapped.read_bytes()[:8] != b"a store."):
        raise Broken("what a killed process had written or stored was not found")
    return None


_OTHER_PROCESS = """
import fcntl, mmap, os, sys
lock, line, mapped = (os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600) for path in sys.argv[1:])
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
os.write(line, b"a line")
try:
    os.posix_fallocate(mapped, 0, 4096)
    store = mmap.mmap(mapped, 4096, mmap.MAP_SHARED)
except OSError:  # which is reported for its own promise
    os.write(1, b"not mapped\\n")
else:
    store[:8] = b"a store."
    os.write(1, b"mapped\\n")
os.read(0, 1)
"""

_TRIALS: tuple[tuple[FilePromise, Callable[[Path, bool], str | None]], ...] = (
    (FilePromise.SYNC, _sync),
    (FilePromise.RENAME, _rename),
    (FilePromise.CREATE, _create),
    (FilePromise.REMOVE, _remove),
    (FilePromise.WRITE, _write),
    (FilePromise.MAPPING, _mapping),
    (FilePromise.LOCK, _lock),
)
