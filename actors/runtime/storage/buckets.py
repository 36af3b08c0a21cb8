"""Tries what object storage must promise (:class:`ObjectPromise`), with the calls that Muster makes.

A service that ignores a condition of a write, or lets two of them win, would let two writers of a log acknowledge.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator
from typing import TypeVar

from muster.actors.object_storage.store import (
    Backend,
    Condition,
    Listed,
    NoSuchObject,
    ObjectStorageError,
    ObjectStore,
    Stored,
    Taken,
    Unavailable,
)
from muster.actors.runtime.storage.promises import Broken, Finding, Promise

FOLDER = "muster-check"
"""Beginning of the names of the objects with which everything is tried."""
T = TypeVar("T")
_WRITERS = 16
_ROUNDS, _THOROUGH_ROUNDS = 2, 10
_COMPETE_S = 10.0
_TRIES = 5
_PAUSE_S = 0.05
_WRITES = 50
_SIZE_BYTES = 4096


class ObjectPromise(Promise):
    """Promise of object storage."""

    CREATE = "one writer per log: a number of its write-ahead log is taken once"
    REPLACE = "a writer that was replaced changes no manifest"
    READ = "what was acknowledged is found by the next owner of a log"
    LIST = "the next owner of a log begins at its end"
    DELETE = "what was removed takes no room"


class Repeating(Backend):
    """Repeats requests without outcome: one breaks no promise."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def create(self, name: str, content: bytes) -> str:
        return await repeated(functools.partial(self._backend.create, name, content))

    async def replace(self, name: str, content: bytes, etag: str) -> str:
        return await repeated(functools.partial(self._backend.replace, name, content, etag))

    async def read(self, name: str) -> Stored:
        return await repeated(functools.partial(self._backend.read, name))

    async def read_range(self, name: str, start: int, size_bytes: int) -> bytes:
        return await repeated(functools.partial(self._backend.read_range, name, start, size_bytes))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Listed]:
        async def names() -> list[Listed]:
            return [listed async for listed in self._backend.list(prefix, after)]

        for listed in await repeated(names):
            yield listed

    async def delete(self, names: Collection[str]) -> None:
        await repeated(functools.partial(self._backend.delete, names))


async def repeated(request: Callable[[], Awaitable[T]]) -> T:
    """Return the result of the request, which is repeated a few times while it has no outcome."""
    for attempt in range(1, _TRIES):
        try:
            return await request()
        except Unavailable:
            await asyncio.sleep(_PAUSE_S * attempt)
    return await request()


class _Trial:
    """``folder``: a name that nobody else uses, with a slash at its end."""

    def __init__(self, backend: Backend, folder: str, thorough: bool) -> None:
        self.backend, self.store, self.folder, self.thorough = backend, ObjectStore(backend), folder, thorough

    def rounds(self) -> Iterator[int]:
        """Yield the numbers of the rounds in which writers compete, until that has taken long enough."""
        began_s = time.monotonic()
        for number in range(_THOROUGH_ROUNDS if self.thorough else _ROUNDS):
            if time.monotonic() < began_s + _COMPETE_S:
                yield number


async def check_bucket(backend: Backend, *, thorough: bool = False) -> list[Finding]:
    """Try everything, and remove what was written. Raises ObjectStorageError if no object can be created and read.

    ``thorough``: measure as well, and let more writers compete; seconds instead of some hundred milliseconds.
    """
    trial = _Trial(Repeating(backend), f"{FOLDER}-{secrets.token_hex(8)}/", thorough)
    try:
        await trial.store.create(f"{trial.folder}first", secrets.token_bytes(16))
        await trial.store.read(f"{trial.folder}first")
        return [await _found(promise, functools.partial(run, trial)) for promise, run in _TRIALS]
    finally:
        with contextlib.suppress(ObjectStorageError):
            await backend.delete([listed.name async for listed in backend.list(trial.folder)])


async def _found(promise: Promise, run: Callable[[], Awaitable[str | None]]) -> Finding:
    """Run the trial, which returns a detail or raises Broken or ObjectStorageError."""
    started = time.perf_counter()
    problem = detail = None
    try:
        detail = await run()
    except (Broken, ObjectStorageError) as error:
        problem = str(error)
    return Finding(promise=promise, problem=problem, detail=detail, took_ms=(time.perf_counter() - started) * 1000)


async def _wins(write: Callable[[], Awaitable[str]]) -> bool:
    """Whether the write takes effect, and not that of another writer."""
    try:
        await repeated(write)  # a conflict that left nothing has no outcome either
    except Taken:
        return False
    return True


async def _winners(writes: Iterable[Callable[[], Awaitable[str]]]) -> list[bool]:
    return await asyncio.gather(*(_wins(write) for write in writes))


async def _create(trial: _Trial) -> str | None:
    for number in trial.rounds():
        name = f"{trial.folder}created-{number}"
        contents = [b"writer %d" % writer for writer in range(_WRITERS)]
        won = await _winners(functools.partial(trial.store.create, name, content) for content in contents)
        if sum(won) != 1:
            raise Broken(f"of {_WRITERS} writers that created one object at once, {sum(won)} succeeded")
        if (await trial.store.read(name)).content != contents[won.index(True)]:
            raise Broken("the object is not that of the writer that succeeded")
        try:
            await trial.backend.create(name, b"late")
        except Condition:
            continue
        raise Broken("an object that exists could be created (If-None-Match is ignored)")
    return await _latency(trial) if trial.thorough else None


async def _latency(trial: _Trial) -> str:
    taken_ms = []
    for number in range(_WRITES):
        started = time.perf_counter()
        await trial.store.create(f"{trial.folder}timed-{number}", bytes(_SIZE_BYTES))
        taken_ms.append((time.perf_counter() - started) * 1000)
    return f"a PUT of 4 KiB: {statistics.median(taken_ms):.1f} ms (median), {max(taken_ms):.1f} ms at most"


async def _replace(trial: _Trial) -> str | None:
    for number in trial.rounds():
        name = f"{trial.folder}replaced-{number}"
        first = await trial.store.create(name, b"before")
        contents = [b"writer %d" % writer for writer in range(_WRITERS)]
        won = await _winners(functools.partial(trial.store.replace, name, content, first) for content in contents)
        if sum(won) != 1:
            raise Broken(f"of {_WRITERS} writers that replaced one version at once, {sum(won)} succeeded")
        if (await trial.store.read(name)).content != contents[won.index(True)]:
            raise Broken("the object is not that of the writer that succeeded")
        try:
            await trial.backend.replace(name, b"late", first)
        except Condition:
            continue
        raise Broken("a version that was replaced before could be replaced again (If-Match is ignored)")
    return None


async def _read(trial: _Trial) -> str | None:
    name, content = f"{trial.folder}read", secrets.token_bytes(_SIZE_BYTES)
    etag = await trial.store.create(name, content)
    if (await trial.store.read(name)).content != content:
        raise Broken("an object that was just created is read with another content")
    if await trial.store.read_range(name, 1000, 100) != content[1000:1100]:
        raise Broken("a part of an object is not that of the whole one")
    await trial.store.replace(name, content[::-1], etag)
    if (await trial.store.read(name)).content != content[::-1]:
        raise Broken("an object that was just replaced is read with its content from before")
    return None


async def _list(trial: _Trial) -> str | None:
    folder = f"{trial.folder}listed/"
    names = [f"{folder}{number:04d}" for number in range(20)]
    for number, name in enumerate(names):
        await trial.store.create(name, b"%d" % number)
        found = [listed.name async for listed in trial.store.list(folder, names[number - 1] if number else "")]
        if found != [name]:
            raise Broken(f"after object {number} was created, a listing behind the one before has {found}")
    if [listed.name async for listed in trial.store.list(folder)] != names:
        raise Broken("a listing is not complete, or not in the order of names")
    return None


async def _delete(trial: _Trial) -> str | None:
    name = f"{trial.folder}deleted"
    await trial.store.create(name, b"before")
    await trial.store.delete([name, f"{name}-never-there"])
    try:
        await trial.store.read(name)
    except NoSuchObject:
        pass
    else:
        raise Broken("an object that was deleted can be read")
    await trial.store.create(name, b"after")
    return None


_TRIALS: tuple[tuple[Promise, Callable[[_Trial], Awaitable[str | None]]], ...] = (
    (ObjectPromise.CREATE, _create),
    (ObjectPromise.REPLACE, _replace),
    (ObjectPromise.READ, _read),
    (ObjectPromise.LIST, _list),
    (ObjectPromise.DELETE, _delete),
)
