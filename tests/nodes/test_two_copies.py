"""Two copies of one actor: the old one is paused with SIGSTOP, replaced, and continued, with clients connected to both.

It acknowledges nothing new, no byte that its successor relies on changes, and what it appends is never read. It may
still respond about what was durable under its claim when it was paused, which is in the log that its successor found.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from muster.actors.log.partition import PartitionLog
from muster.actors.runtime.process import now_ms
from muster.actors.wire.internal.channel import Channel, ChannelLost, connect
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.epochs import next_epoch
from muster.placement.topics import TopicRegistry
from muster.placement.view import OFFSETS_TOPIC, Endpoint, Topic
from muster.placement.zookeeper.client import ZooKeeperClient
from pytest_muster.bound import bound
from tests.nodes.copy import CONFIG, SECRET
from tests.nodes.files import counted, unchanged
from tests.nodes.raw import commit, produce

ROUNDS = 3
LOOPS = 6
"""Concurrent requests on each connection."""
ENOUGH = 40
WAIT_S = 60
_numbers = itertools.count()


async def _commit(channel: Channel, _: Topic, number: int) -> ErrorCode:
    return await commit(channel, f"g-{number}", number)


async def _produce(channel: Channel, topic: Topic, number: int) -> ErrorCode:
    return await produce(channel, topic, 0, b"g-%d" % number)


Write = Callable[[Channel, Topic, int], Awaitable[ErrorCode]]
"""Write a record for that number; return the error code of the response."""
KINDS: dict[str, tuple[str, Write]] = {"offsets": (OFFSETS_TOPIC, _commit), "log": ("flights", _produce)}


class Copy:
    """A serving process, and a connection to it with requests in flight."""

    def __init__(self, kind: str, storage: Path, hosts: str, topic: Topic) -> None:
        self._kind, self._topic = kind, topic
        self.acknowledged: set[int] = set()
        self.under_way: set[int] = set()
        self.refused: list[ErrorCode | str] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._more = asyncio.Event()
        self._process = subprocess.Popen(
            bound([sys.executable, "-m", "tests.nodes.copy", kind, str(storage), hosts]),
            stdout=subprocess.PIPE,
            text=True,
        )

    async def connect(self) -> None:
        assert self._process.stdout is not None
        line = await asyncio.to_thread(self._process.stdout.readline)
        endpoint = Endpoint(**json.loads(line), secret=SECRET)
        self._channel = await connect(endpoint, "here", on_updates=None, on_lost=lambda: None)

    def load(self) -> None:
        """Write continuously until :meth:`rest`, or until the connection is lost."""
        self._more.set()
        self._tasks = [asyncio.get_running_loop().create_task(self._write_on()) for _ in range(LOOPS)]

    async def _write_on(self) -> None:
        while self._more.is_set() and await self.write():
            pass

    async def write(self) -> bool:
        """One request; False when there is no connection."""
        number = next(_numbers)
        self.under_way.add(number)
        try:
            code = await KINDS[self._kind][1](self._channel, self._topic, number)
        except ChannelLost:
            self.refused.append("lost")
            return False
        finally:
            self.under_way.discard(number)
        if code is ErrorCode.none:
            self.acknowledged.add(number)
        else:
            self.refused.append(code)
            await asyncio.sleep(0.01)
        return True

    async def until_acknowledged(self, count: int) -> None:
        while len(self.acknowledged) < count:
            assert self._process.poll() is None, "it ended"
            await asyncio.sleep(0.01)

    async def rest(self) -> None:
        """Start no more requests, and wait for the responses to those in flight."""
        self._more.clear()
        await asyncio.gather(*self._tasks)

    def send(self, signal_number: signal.Signals) -> None:
        self._process.send_signal(signal_number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(WAIT_S)


@pytest.fixture
def storage() -> Iterator[Path]:
    """Short, for the Unix sockets in it."""
    made = Path(tempfile.mkdtemp(prefix="muster-", dir="/tmp"))
    yield made
    shutil.rmtree(made)


def numbers_in(folder: Path, topic: Topic, epoch: int) -> set[int]:
    """Return the numbers that a successor reads there."""
    log = PartitionLog.open(folder, topic_id=topic.topic_id, epoch=epoch, config=CONFIG, now_ms=now_ms)
    records = list(log.replay())
    asyncio.run(log.close())
    assert [record.offset for record in records] == list(range(len(records)))
    texts = [(record.key or b"") if topic.name == OFFSETS_TOPIC else (record.value or b"") for record in records]
    return {int("".join(chr(byte) for byte in text.partition(b"g-")[2] if chr(byte).isdigit())) for text in texts}


@pytest.mark.parametrize("kind", KINDS)
def test_an_old_copy_acknowledges_and_changes_nothing(
    kind: str, storage: Path, zk: ZooKeeperClient, zk_hosts: str
) -> None:
    topic_name, _ = KINDS[kind]
    topic = TopicRegistry(zk).create(topic_name, 1)
    folder = storage / "logs" / f"{topic_name}-0"
    acknowledged: set[int] = set()

    async def one_round(old: Copy) -> Copy:
        """Pause the old one at a random moment of its work, and continue it when the next one has taken over."""
        await old.until_acknowledged(ENOUGH)
        old.send(signal.SIGSTOP)
        new = Copy(kind, storage, zk_hosts, topic)
        await new.connect()
        new.load()
        await new.until_acknowledged(ENOUGH)
        may_be = old.acknowledged | old.under_way
        waiting = [asyncio.get_running_loop().create_task(old.write()) for _ in range(20)]
        await new.rest()
        before = counted(folder)
        assert before
        old.send(signal.SIGCONT)
        await asyncio.gather(*waiting)
        await old.rest()
        assert old.acknowledged <= may_be
        assert len(old.refused) >= len(waiting)
        after = counted(folder)
        assert unchanged(before, after)
        assert after.keys() == before.keys()
        acknowledged.update(old.acknowledged)
        old.kill()
        new.load()
        await new.until_acknowledged(len(new.acknowledged) + ENOUGH)
        assert new.refused == []
        return new

    async def rounds() -> None:
        async with asyncio.timeout(ROUNDS * WAIT_S):
            copy = Copy(kind, storage, zk_hosts, topic)
            try:
                await copy.connect()
                copy.load()
                for _ in range(ROUNDS):
                    copy = await one_round(copy)
                await copy.rest()
                acknowledged.update(copy.acknowledged)
            finally:
                copy.kill()

    asyncio.run(rounds())
    read = numbers_in(folder, topic, next_epoch(zk, topic_name, 0, "reader"))
    assert acknowledged <= read
    assert len(acknowledged) >= ROUNDS * 2 * ENOUGH
