"""Things that happen to a process at one of its requests to object storage, and what must be true after them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.actors.log.config import LogConfig
from muster.actors.log.errors import LogError
from muster.actors.log.partition import PartitionLog
from muster.actors.object_storage.store import Unavailable
from tests.log.bucket.requests import OTHER_ID, CountedBackend, Known, Node, settled
from tests.object_storage.memory import MemoryBackend, MemoryBucket

DELETING = LogConfig(segment_bytes=600)
COMPACTING = LogConfig(segment_bytes=600, cleanup_policy="compact", min_cleanable_dirty_ratio=0.01)


@dataclass(frozen=True, slots=True)
class Work:
    """Work of a process, from its start on, until it is killed or fenced."""

    config: LogConfig
    do: Callable[[PartitionLog, PartitionLog, Known], Coroutine[Any, Any, None]]
    acknowledged: int
    """How many records, if nothing happens."""
    compacted: bool = False


def pair(key: int, text: str) -> tuple[bytes, bytes]:
    return b"k%d" % key, f"k{key} {text}".encode().ljust(60, b".")


async def produce(log: PartitionLog, other: PartitionLog, known: Known) -> None:
    del other
    for number in range(4):
        sent = [known.append(log, pair(each, f"{number} of {log.epoch}")) for each in range(5)]
        await asyncio.gather(*sent)


async def delete(log: PartitionLog, other: PartitionLog, known: Known) -> None:
    await produce(log, other, known)
    await known.delete_records(log, 9)
    await produce(log, other, known)
    await known.delete_records(log, 31)


async def compact(log: PartitionLog, other: PartitionLog, known: Known) -> None:
    await produce(log, other, known)
    await log.roll()
    await log.clean()
    await produce(log, other, known)
    await log.clean()


WORK = {
    "produce": Work(DELETING, produce, 20),
    "delete": Work(DELETING, delete, 40),
    "compact": Work(COMPACTING, compact, 40, compacted=True),
}


async def worked(node: Node, work: Work, known: Known, of_other: Known) -> None:
    """Do the work as far as it goes. A partition that is hardly used holds back the write-ahead log."""
    try:
        await node.start()
        log, other = await node.open_log(), await node.open_log("u", OTHER_ID)
        await of_other.append(other, pair(0, f"of {log.epoch}"))
        await work.do(log, other, known)
        assert node.role is not None
        await settled(node.role)
        await node.stop(log, other)
    except LogError:  # fenced
        pass


async def compared(bucket: MemoryBucket, folder: Path, work: Work, known: Known, of_other: Known, epoch: int) -> None:
    """Open everything on another node, and compare; then, after more was written and uploaded, on the first one."""
    for more, name in enumerate(("c", "a")):
        node = Node(MemoryBackend(bucket), folder / name, epoch + more, work.config)
        await node.start()
        log, other = await node.open_log(), await node.open_log("u", OTHER_ID)
        known.compare(log, compacted=work.compacted)
        of_other.compare(other, compacted=work.compacted)
        await produce(log, other, known)
        assert node.role is not None
        await settled(node.role)
        known.compare(log, compacted=work.compacted)
        await node.stop(log, other)


async def counted(folder: Path, work: Work) -> list[tuple[str, str]]:
    """Return the requests of the work when nothing happens."""
    bucket, known, of_other = MemoryBucket(), Known(), Known()
    backend = CountedBackend(bucket)
    await worked(Node(backend, folder / "a", 1, work.config), work, known, of_other)
    assert len(known.acknowledged) == work.acknowledged
    await compared(bucket, folder, work, known, of_other, 2)
    return backend.requests


async def killed(folder: Path, work: Work, at: int, *, before: bool) -> None:
    """Kill it at that request, before it takes effect or before the response."""
    bucket, known, of_other = MemoryBucket(), Known(), Known()
    dead = asyncio.Event()

    async def kill(number: int, *_: str) -> None:
        if number >= at or dead.is_set():
            dead.set()
            await asyncio.Event().wait()

    backend = CountedBackend(bucket, **{"before" if before else "after": kill})
    alive = asyncio.create_task(worked(Node(backend, folder / "a", 1, work.config), work, known, of_other))
    ended = asyncio.create_task(dead.wait())
    await asyncio.wait([alive, ended], return_when=asyncio.FIRST_COMPLETED)
    if alive.done():
        alive.result()
    await compared(bucket, folder, work, known, of_other, 2)


async def overtaken(folder: Path, work: Work, at: int, *, at_once: bool) -> None:
    """Let another process open the role at that request of the older one, which hears of it from nobody.

    It works at once, or when the older one has come to its end.
    """
    bucket, known, of_other = MemoryBucket(), Known(), Known()
    newer = Node(MemoryBackend(bucket), folder / "b", 2, work.config)
    opened: list[PartitionLog] = []

    async def overtake(number: int, *_: str) -> None:
        if number == at:
            await newer.start()
            opened.extend([await newer.open_log(), await newer.open_log("u", OTHER_ID)])
            known.compare(opened[0], compacted=work.compacted)
            if at_once:
                await go_on()

    async def go_on() -> None:
        log, other = opened
        await work.do(log, other, known)
        assert newer.role is not None
        await settled(newer.role)
        assert not log.is_over

    older = Node(CountedBackend(bucket, before=overtake), folder / "a", 1, work.config)
    await worked(older, work, known, of_other)
    if opened and not at_once:
        await go_on()
    await compared(bucket, folder, work, known, of_other, 3)


async def unanswered(folder: Path, work: Work, at: int, *, before: bool) -> None:
    """Let that request have no response, whether or not it took effect: it is repeated, and nobody notices."""
    bucket, known, of_other = MemoryBucket(), Known(), Known()

    async def fail(number: int, kind: str, name: str) -> None:
        if number == at and kind != "list":
            raise Unavailable(f"{kind} {name}")

    backend = CountedBackend(bucket, **{"before" if before else "after": fail})
    await worked(Node(backend, folder / "a", 1, work.config), work, known, of_other)
    assert len(known.acknowledged) == work.acknowledged
    await compared(bucket, folder, work, known, of_other, 2)
