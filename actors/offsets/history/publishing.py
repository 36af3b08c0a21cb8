"""Rebalances that have ended, as records of the topic ``rebalance.events.topic``.

A record's value is the entry as JSON, as over HTTP; its key the group, so that those of a group stay in order; its time
``ended_ms``. The headers ``offsets_partition``, ``epoch`` and ``number`` identify an entry. Each comes at least once:
how far they were sent is in a file beside the spools, and a coordinator sends what its predecessor may not have sent.
So some come again after a process was killed or a response was lost, and then out of order.

Nothing waits for it. What a topic that does not exist, or a log actor that is down, holds up is in the table.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from muster.actors.log.format.records import build_batch
from muster.actors.object_storage.blocking import wait_for
from muster.actors.object_storage.location import Location
from muster.actors.object_storage.store import NoSuchObject, ObjectStorageError, Taken
from muster.actors.offsets.history.recent import Recent
from muster.actors.runtime.channels import ActorChannels
from muster.actors.runtime.files import write_atomically
from muster.actors.runtime.process import now_ms
from muster.actors.tables.bucket.reading import open_store
from muster.actors.tables.rebalances import Place, RebalanceStore, place_of
from muster.actors.wire.internal.channel import ChannelLost
from muster.actors.wire.internal.produce import ProducedPartition, ProducePartition, ProduceRequest
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.limited_log import LimitedLog
from muster.placement.hashing import partition_of
from muster.placement.view import COORDINATORS, ClusterView

log = logging.getLogger(__name__)

_PAGE_BYTES, _PAGE_ENTRIES = 512 << 10, 500
_PRODUCE_S = 30.0
_RETRY_S = 1.0
_CLOSE_S = 2.0
_BEFORE_MS = 60_000
"""How long before its first coordinator started entries may have ended by that one's clock."""
_LATEST = 1 << 62
_NEVER = frozenset({ErrorCode.message_too_large, ErrorCode.invalid_record, ErrorCode.invalid_timestamp})
"""Errors of a record that no later attempt has not."""


class Progress(NamedTuple):
    """All entries of earlier epochs were sent, and those of this one that ended before that time."""

    epoch: int
    ended_ms: int


class RebalancePublisher:
    """Sends the entries of one coordinator, and of those before it. For the coordinator's event loop."""

    def __init__(
        self,
        topic: str,
        *,
        partition: int,
        epoch: int,
        recent: Recent,
        store: RebalanceStore,
        channels: ActorChannels,
        directory: Path,
        bucket: Location | None = None,
    ) -> None:
        """``channels``: its own, which it closes. ``directory``: that of the tables. ``bucket``: see RebalanceStore."""
        self._topic = topic
        self._epoch = epoch
        self._recent = recent
        self._store = store
        self._channels = channels
        self._kept: _ProgressFile | _ProgressObject
        if bucket is None:
            self._kept = _ProgressFile(progress_file(directory, partition))
        else:
            self._kept = _ProgressObject(bucket, partition)
        self._count = 0
        self._progress = self._saved = Progress(epoch, now_ms() - _BEFORE_MS)
        self._saved_s = 0.0
        self._wake = asyncio.Event()
        self._is_closing = False
        self._task: asyncio.Task[None] | None = None
        self._limited_log = LimitedLog(log)

    def follow(self, view: ClusterView) -> None:
        """Send by the newest view."""
        self._channels.follow(view)

    def ended(self) -> None:
        """Send what is new in the memory of entries."""
        self._wake.set()

    def start(self) -> None:
        """Begin to send, first what earlier coordinators may not have sent. May be called again."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Send what can be sent at once; the next coordinator sends the rest."""
        self._is_closing = True
        self._wake.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_CLOSE_S)
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            await self._save()
        self._channels.close()
        self._limited_log.flush()

    async def _run(self) -> None:
        while True:
            try:
                await self._send_all()
            except (OSError, ObjectStorageError) as error:
                text = "rebalances are not sent to %s for now: %s"
                self._limited_log.warning("storage", self._topic, text, self._topic, error)
                await asyncio.sleep(_RETRY_S)
            except Exception:
                log.exception("rebalances are not sent to %s for now", self._topic)
                await asyncio.sleep(_RETRY_S)
            else:
                return

    async def _send_all(self) -> None:
        await self._send_earlier()
        while True:
            self._wake.clear()
            if await self._send_new():
                await self._save_sometimes()
            elif self._is_closing:
                return
            elif self._progress == self._saved:
                await self._wake.wait()
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._kept.save_s):
                        await self._wake.wait()
                await self._save_sometimes()

    async def _send_earlier(self) -> None:
        """Send what earlier coordinators may not have sent; nothing if they did not send to this topic."""
        known = await asyncio.to_thread(self._kept.read, self._topic)
        if known is None or known.epoch >= self._epoch:
            await self._save()
            return
        self._progress = self._saved = known
        await self._send_stored((known.epoch, known.ended_ms, 0), (self._epoch - 1, _LATEST, _LATEST))
        self._progress = Progress(self._epoch, now_ms() - _BEFORE_MS)

    async def _send_new(self) -> bool:
        """Send a page of what is new. Returns whether there was something."""
        page = self._recent.since(self._count, _PAGE_BYTES)
        if page.lost:  # from memory, not from the table
            last_ms = page.entries[-1].ended_ms if page.entries else now_ms()
            await self._send_stored((*self._progress, 0), (self._epoch, last_ms, _LATEST))
            self._count = page.count
            return True
        for kept in page.entries:
            values = json.loads(kept.encoded)
            del values["v"]
            await self._send(values)
            self._count = kept.count
        self._count = page.count
        return bool(page.entries)

    async def _send_stored(self, after: Place, until: Place) -> None:
        """Send entries of the table and its spools."""
        while found := await asyncio.to_thread(self._store.ended, after, until, _PAGE_ENTRIES):
            for entry in found:
                await self._send(entry.to_json())
                after = place_of(entry)
            await self._save_sometimes()

    async def _send(self, values: Mapping[str, Any]) -> None:
        """Send an entry until it is written, or can never be."""
        while (trouble := await self._trouble(values)) is not None:
            self._limited_log.warning("trouble", self._topic, "rebalances wait for topic %s: %s", self._topic, trouble)
            await asyncio.sleep(_RETRY_S)
        self._progress = max(self._progress, Progress(values["epoch"], values["ended_ms"]))

    async def _trouble(self, values: Mapping[str, Any]) -> str | None:
        """Send an entry once. Returns why it may not be written; None if it is, or can never be."""
        view, key = self._channels.view, str(values["group"]).encode()
        topic = view.topics.get(self._topic)
        if topic is None or topic.name in COORDINATORS:
            return "it does not exist" if topic is None else "it is internal"
        partition = partition_of(key, topic.partitions)
        part = ProducePartition(topic.topic_id, partition, _record(key, values))
        try:
            channel = await self._channels.to(("log", view.log_of(topic, partition)))
            done: asyncio.Future[ProducedPartition] = asyncio.get_running_loop().create_future()

            def on_produced(found: Sequence[ProducedPartition] | ChannelLost) -> None:
                if done.done():
                    return
                if isinstance(found, ChannelLost):
                    done.set_exception(found)
                else:
                    done.set_result(found[0])

            channel.produce(ProduceRequest([part]), on_produced, timeout_s=_PRODUCE_S)
            produced = await done
        except ChannelLost as error:
            return f"its log does not respond: {error}"
        code = produced.error_code
        if code in _NEVER:
            text = "a rebalance is not written to topic %s: %s %s"
            self._limited_log.warning("never", self._topic, text, self._topic, code.name, produced.error_message or "")
            return None
        return None if code is ErrorCode.none else f"{code.name} {produced.error_message or ''}".rstrip()

    async def _save_sometimes(self) -> None:
        if asyncio.get_running_loop().time() - self._saved_s >= self._kept.save_s:
            await self._save()

    async def _save(self) -> None:
        self._saved, self._saved_s = self._progress, asyncio.get_running_loop().time()
        try:
            await asyncio.to_thread(self._kept.write, self._topic, self._progress)
        except (OSError, ObjectStorageError) as error:
            self._limited_log.warning("progress", self._topic, "%s cannot be written: %s", self._kept, error)


def progress_file(directory: Path, partition: int) -> Path:
    """Return the file with the progress of the partition's coordinators, below the directory of the tables."""
    return directory / "spool" / "_rebalance_events" / f"offsets-{partition}.json"


class _ProgressFile:
    save_s = 1.0

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    def read(self, topic: str) -> Progress | None:
        """Return what was sent to that topic; None if nothing was, or it is not known."""
        try:
            return _progress_in(self._path.read_bytes(), topic)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("rebalances are sent from now on, since %s cannot be read: %s", self, error)
            return None

    def write(self, topic: str, progress: Progress) -> None:
        """Raise OSError."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, _progress_bytes(topic, progress))


class _ProgressObject:
    """An object in the bucket, since the next coordinator may be on another node. Each write costs a request."""

    save_s = 30.0

    def __init__(self, bucket: Location, partition: int) -> None:
        self._bucket = bucket
        self._name = f"progress/rebalance-events/offsets-{partition}"
        self._etag: str | None = None

    def __str__(self) -> str:
        return f"{self._bucket}/{self._name}"

    def read(self, topic: str) -> Progress | None:
        """Return as a file does. Raises ObjectStorageError: what was not sent then must not be left out."""
        try:
            found = wait_for(open_store(self._bucket).read(self._name))
        except NoSuchObject:
            return None
        self._etag = found.etag
        try:
            return _progress_in(found.content, topic)
        except (ValueError, KeyError, TypeError) as error:
            log.warning("rebalances are sent from now on, since %s cannot be read: %s", self, error)
            return None

    def write(self, topic: str, progress: Progress) -> None:
        """Raise ObjectStorageError, also if another coordinator has written it."""
        store, content = open_store(self._bucket), _progress_bytes(topic, progress)
        try:
            if self._etag is None:
                self._etag = wait_for(store.create(self._name, content))
            else:
                self._etag = wait_for(store.replace(self._name, content, self._etag))
        except Taken as taken:  # for the next time, unless a later coordinator wrote it
            if taken.found is None:
                self._etag = None
            elif json.loads(taken.found.content)["epoch"] <= progress.epoch:
                self._etag = taken.found.etag
            raise


def _progress_in(content: bytes, topic: str) -> Progress | None:
    values = json.loads(content)
    return Progress(int(values["epoch"]), int(values["ended_ms"])) if values["topic"] == topic else None


def _progress_bytes(topic: str, progress: Progress) -> bytes:
    return json.dumps({"topic": topic, **progress._asdict()}).encode()


def _record(key: bytes, values: Mapping[str, Any]) -> bytes:
    names = ("offsets_partition", "epoch", "number")
    headers = tuple((name.encode(), str(values[name]).encode()) for name in names)
    value = json.dumps(values, separators=(",", ":")).encode()
    return bytes(build_batch([(key, value)], values["ended_ms"], 0, -1, headers=headers))
