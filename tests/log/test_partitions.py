"""Partitions of a log actor: requests in, responses out, through the real codec both ways."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from muster.actors.log import open_logs, routing
from muster.actors.log.config import LogConfig
from muster.actors.log.errors import InvalidRecord
from muster.actors.log.fetch import WaitingFetch, open_now, open_soon
from muster.actors.log.format import client_batch as client_batch_module
from muster.actors.log.format.batch import iter_headers, read_header
from muster.actors.log.format.client_batch import AT_ONCE_RECORDS
from muster.actors.log.format.compression import decompress
from muster.actors.log.open_logs import SharedDirectory
from muster.actors.log.partition import Append, PartitionLog
from muster.actors.log.partitions import Partitions
from muster.actors.log.produces import Produce
from muster.actors.wire.internal.fetch import FetchedPartition, FetchPartition, FetchRequest
from muster.actors.wire.internal.produce import ProducedPartition
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.kafka.framing import Buffer
from muster.placement.view import ClusterView, Topic
from tests.fuzz.batches import changed
from tests.log.support import GZIP, NOW_MS, client_batch, request, response, run, view_of

FLIGHTS = Topic(name="flights", topic_id=UUID(int=1), partitions=3)
OTHER = Topic(
    name="other.topic_1", topic_id=UUID(int=2), partitions=1, config={"message.timestamp.type": "LogAppendTime"}
)


class Cluster:
    """One log actor's environment: its view, and leader epochs as from ZooKeeper."""

    def __init__(self, storage: Path, view: ClusterView | None = None, index: int = 0, **options: Any) -> None:
        self.view = view or view_of(FLIGHTS, OTHER)
        self.epochs: Counter[tuple[str, int]] = Counter()
        self.may_respond = asyncio.Event()
        self.may_respond.set()
        self.partitions = Partitions(
            storage=SharedDirectory(storage / "logs"),
            config=LogConfig(),
            topics=lambda: self.view,
            index=index,
            next_epoch=self.next_epoch,
            **{"now_ms": lambda: NOW_MS} | options,
        )

    async def next_epoch(self, topic: str, partition: int) -> int:
        await self.may_respond.wait()
        self.epochs[topic, partition] += 1
        return self.epochs[topic, partition]

    async def produce(self, *parts: tuple[UUID, int, bytes]) -> Sequence[ProducedPartition]:
        produced: asyncio.Future[Sequence[ProducedPartition]] = asyncio.get_running_loop().create_future()
        Produce([self.partitions.place(*part) for part in parts], produced.set_result)
        return await produced

    async def fetch(
        self,
        *parts: tuple[UUID, int, int],
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        partition_max_bytes: int = 1 << 20,
        leader_epoch: int = -1,
    ) -> list[FetchedPartition]:
        wanted = [
            FetchPartition(topic_id, index, leader_epoch, offset, partition_max_bytes)
            for topic_id, index, offset in parts
        ]
        request = FetchRequest(False, max_wait_ms, min_bytes, max_bytes, wanted)
        fetch = open_now(request, self.partitions.open_log) or await open_soon(request, self.partitions.log_by_id)
        if fetch.has_to_wait():
            ready = asyncio.Event()
            waiting = WaitingFetch(fetch, lambda _: ready.set())
            try:
                await ready.wait()
            finally:
                waiting.cancel()
        return fetch.response()

    async def list_offset(self, name: str, partition: int, timestamp: int, leader_epoch: int = -1) -> Any:
        query = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": leader_epoch}
        body = {
            "replica_id": -1,
            "isolation_level": 0,
            "timeout": 1000,
            "topics": [{"name": name, "partitions": [query]}],
        }
        entity = response(2, 10, await self.partitions.list_offsets(request(2, 10, body)))
        return entity.topics[0].partitions[0]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits the wait for views that never arrive."""
    monkeypatch.setattr(routing, "LATE_S", 0.1)


def offsets_in(records: Buffer) -> list[tuple[int, int]]:
    """Return (base offset, last offset) of each batch."""
    return [(header.base_offset, header.last_offset) for _, header in iter_headers(records)]


def test_what_was_produced_is_fetched(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Cluster(tmp_path)
        [first] = await cluster.produce((FLIGHTS.topic_id, 0, client_batch(3, codec=GZIP)))
        assert (first.error_code, first.base_offset, first.log_append_time_ms, first.log_start_offset) == (0, 0, -1, 0)
        [second] = await cluster.produce((FLIGHTS.topic_id, 0, client_batch(2)))
        assert second.base_offset == 3
        [part] = await cluster.fetch((FLIGHTS.topic_id, 0, 0))
        assert offsets_in(part.records) == [(0, 2), (3, 4)]
        await cluster.partitions.close()

    run(main())


def test_log_append_time_is_the_topics(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Cluster(tmp_path)
        [response] = await cluster.produce((OTHER.topic_id, 0, client_batch(2, first_ms=5)))
        assert response.log_append_time_ms == NOW_MS
        found = await cluster.list_offset(OTHER.name, 0, NOW_MS)
        assert (found.offset, found.timestamp) == (0, NOW_MS)
        await cluster.partitions.close()

    run(main())


def test_errors_are_per_partition(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Cluster(tmp_path)
        good = client_batch()
        codes = [
            response.error_code
            for response in await cluster.produce(
                (FLIGHTS.topic_id, 0, good),
                (uuid4(), 0, good),
                (FLIGHTS.topic_id, 3, good),
                (FLIGHTS.topic_id, 1, good[:-1]),
                (FLIGHTS.topic_id, 1, b""),
            )
        ]
        assert codes == [
            ErrorCode.none,
            ErrorCode.unknown_topic_id,
            ErrorCode.unknown_topic_or_partition,
            ErrorCode.corrupt_message,
            ErrorCode.invalid_record,
        ]
        fetched = await cluster.fetch((uuid4(), 0, 0), (FLIGHTS.topic_id, 0, 99), max_wait_ms=60_000, min_bytes=1000)
        assert [part.error_code for part in fetched] == [ErrorCode.unknown_topic_id, ErrorCode.offset_out_of_range]
        listed = await cluster.list_offset("nowhere", 0, -1)
        assert listed.error_code == ErrorCode.unknown_topic_or_partition
        await cluster.partitions.close()
        [response] = await cluster.produce((FLIGHTS.topic_id, 0, good))
        assert response.error_code == ErrorCode.not_leader_or_follower

    run(main())


def test_only_the_owner_serves(tmp_path: Path) -> None:
    async def main() -> None:
        view = view_of(FLIGHTS, logs=2)
        owner = view.log_of(FLIGHTS, 0)
        [mine] = await Cluster(tmp_path, view, owner).produce((FLIGHTS.topic_id, 0, client_batch()))
        [not_mine] = await Cluster(tmp_path, view, 1 - owner).produce((FLIGHTS.topic_id, 0, client_batch()))
        assert (mine.error_code, not_mine.error_code) == (ErrorCode.none, ErrorCode.not_leader_or_follower)

    run(main())


def test_concurrent_first_uses_share_one_open_and_keep_their_order(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Cluster(tmp_path)
        cluster.may_respond.clear()
        early = [
            asyncio.create_task(cluster.produce((FLIGHTS.topic_id, 1, client_batch(count)))) for count in range(1, 6)
        ]
        await asyncio.sleep(0)
        cluster.may_respond.set()
        late = []
        while not early[0].done():  # keep calling while the log becomes open
            late.append(asyncio.create_task(cluster.produce((FLIGHTS.topic_id, 1, client_batch(10)))))
            await asyncio.sleep(0)
        offsets = [(await task)[0].base_offset for task in early + late]
        assert offsets == sorted(offsets)
        assert offsets[:6] == [0, 1, 3, 6, 10, 15]
        assert cluster.epochs["flights", 1] == 1
        await cluster.partitions.close()

    run(main())


@pytest.mark.parametrize("retry_after_s", [0.0, 3600.0])
def test_an_open_that_fails_is_tried_again_a_little_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retry_after_s: float
) -> None:
    monkeypatch.setattr(open_logs, "RETRY_AFTER_S", retry_after_s)

    async def main() -> None:
        cluster = Cluster(tmp_path)
        (tmp_path / "logs").write_text("in the way")
        for _ in range(3):
            [failed] = await cluster.produce((FLIGHTS.topic_id, 0, client_batch()))
            assert failed.error_code == ErrorCode.kafka_storage_error
        assert cluster.epochs.total() == (1 if retry_after_s else 3)
        (tmp_path / "logs").unlink()
        [response] = await cluster.produce((FLIGHTS.topic_id, 0, client_batch()))
        assert response.error_code == (ErrorCode.kafka_storage_error if retry_after_s else ErrorCode.none)
        await cluster.partitions.close()

    run(main())


def test_a_partition_that_was_taken_over_is_opened_again_with_a_new_epoch(tmp_path: Path) -> None:
    async def main() -> None:
        old, new = Cluster(tmp_path), Cluster(tmp_path)
        new.epochs = old.epochs
        part = (FLIGHTS.topic_id, 0, client_batch())
        assert [(await c.produce(part))[0].error_code for c in (old, new, old, old)] == [0, 0, 6, 0]
        [fetched] = await old.fetch((FLIGHTS.topic_id, 0, 0))
        assert offsets_in(fetched.records) == [(0, 0), (1, 1), (2, 2)]
        assert fetched.error_code == ErrorCode.none

    run(main())


def test_a_long_poll_wakes_up_for_any_of_its_partitions(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Cluster(tmp_path)
        wanted = [(FLIGHTS.topic_id, index, 0) for index in range(3)]
        poll = asyncio.create_task(cluster.fetch(*wanted, max_wait_ms=60_000))
        await cluster.fetch(*wanted)  # all are open now
        assert not poll.done()
        await cluster.produce((FLIGHTS.topic_id, 2, client_batch(4)))
        parts = await poll
        assert [offsets_in(part.records) for part in parts] == [[], [], [(0, 3)]]
        await cluster.partitions.close()

    run(main())


def test_min_bytes_are_counted_over_all_partitions(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Cluster(tmp_path)
        batch = client_batch(1)
        wanted = [(FLIGHTS.topic_id, index, 0) for index in range(2)]
        poll = asyncio.create_task(cluster.fetch(*wanted, max_wait_ms=60_000, min_bytes=3 * len(batch)))
        for index in (0, 1):
            await cluster.produce((FLIGHTS.topic_id, index, batch))
            await cluster.fetch(*wanted)
            assert not poll.done()
        await cluster.produce((FLIGHTS.topic_id, 1, batch))
        assert [len(part.records) for part in await poll] == [len(batch), 2 * len(batch)]
        await cluster.partitions.close()

    run(main())


def test_max_wait_ends_a_long_poll_with_what_is_there(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Cluster(tmp_path)
        await cluster.produce((FLIGHTS.topic_id, 0, client_batch()))
        [part] = await cluster.fetch((FLIGHTS.topic_id, 0, 0), max_wait_ms=50, min_bytes=10_000)
        assert offsets_in(part.records) == [(0, 0)]
        await cluster.partitions.close()

    run(main())


def test_max_bytes_hold_overall_but_the_first_batch_always_comes(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Cluster(tmp_path)
        batch = client_batch(1, value=b"x" * 1000)
        for index in (1, 2):
            for _ in range(3):
                await cluster.produce((FLIGHTS.topic_id, index, batch))
        wanted = [(FLIGHTS.topic_id, index, 0) for index in range(3)]

        async def batches(**limits: int) -> list[int]:
            return [len(offsets_in(part.records)) for part in await cluster.fetch(*wanted, **limits)]

        assert await batches(max_bytes=1) == [0, 1, 0]
        assert await batches(partition_max_bytes=1) == [0, 1, 0]
        assert await batches(max_bytes=2 * len(batch)) == [0, 2, 0]
        assert await batches(max_bytes=4 * len(batch)) == [0, 3, 1]
        assert await batches(partition_max_bytes=2 * len(batch)) == [0, 2, 2]
        await cluster.partitions.close()

    run(main())


def test_a_cancelled_long_poll_leaves_no_trace(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Cluster(tmp_path)
        await cluster.fetch((FLIGHTS.topic_id, 0, 0))
        log = await cluster.partitions.log_by_id(FLIGHTS.topic_id, 0)
        poll = asyncio.create_task(cluster.fetch((FLIGHTS.topic_id, 0, 0), max_wait_ms=60_000))
        await asyncio.sleep(0)
        assert len(log._watchers) == 1
        poll.cancel()
        with pytest.raises(asyncio.CancelledError):
            await poll
        assert not log._watchers
        await cluster.partitions.close()

    run(main())


def test_leader_epochs_that_the_client_believes_in(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Cluster(tmp_path)
        cluster.epochs["flights", 0] = 6
        part = (FLIGHTS.topic_id, 0, 0)
        codes = [(await cluster.fetch(part, leader_epoch=epoch))[0].error_code for epoch in (-1, 6, 7, 8)]
        assert codes == [0, ErrorCode.fenced_leader_epoch, 0, ErrorCode.unknown_leader_epoch]
        listed = [await cluster.list_offset("flights", 0, -1, epoch) for epoch in (6, 7, 8)]
        assert [(found.error_code, found.leader_epoch) for found in listed] == [(74, -1), (0, 7), (75, -1)]
        await cluster.partitions.close()

    run(main())


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (-1, (0, 5, -1)),
        (-2, (0, 0, -1)),
        (-3, (0, 4, NOW_MS + 40)),
        (-4, (0, 0, -1)),
        (-5, (0, -1, -1)),
        (-6, (35, -1, -1)),
        (0, (0, 0, NOW_MS)),
        (NOW_MS + 11, (0, 2, NOW_MS + 20)),
        (NOW_MS + 41, (0, -1, -1)),
    ],
)
def test_list_offsets(tmp_path: Path, timestamp: int, found: tuple[int, int, int]) -> None:
    async def main() -> None:
        cluster = Cluster(tmp_path)
        await cluster.produce((FLIGHTS.topic_id, 0, client_batch(5, step_ms=10)))
        response = await cluster.list_offset("flights", 0, timestamp)
        assert (response.error_code, response.offset, response.timestamp) == found
        await cluster.partitions.close()

    run(main())


def test_a_deleted_topic_goes_with_its_files_and_a_new_one_of_its_name_starts_empty(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Cluster(tmp_path)
        for index in (0, 1):
            await cluster.produce((FLIGHTS.topic_id, index, client_batch()))
        await cluster.produce((OTHER.topic_id, 0, client_batch()))
        again = Topic(name="flights", topic_id=UUID(int=9), partitions=1)
        cluster.view = view_of(again, OTHER, version=2)
        await cluster.partitions.view_changed(cluster.view)
        assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["other.topic_1-0"]
        [gone] = await cluster.fetch((FLIGHTS.topic_id, 0, 0))
        [new] = await cluster.fetch((again.topic_id, 0, 0))
        assert (gone.error_code, new.error_code, new.high_watermark) == (ErrorCode.unknown_topic_id, 0, 0)
        await cluster.partitions.view_changed(view_of(version=1))  # an old view deletes nothing
        [kept] = await cluster.fetch((OTHER.topic_id, 0, 0))
        assert kept.high_watermark == 1
        await cluster.partitions.close()

    run(main())


def test_a_topics_configuration_is_followed(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Cluster(tmp_path)
        batch = client_batch(10)
        await cluster.produce((FLIGHTS.topic_id, 0, batch))
        limited = Topic(name="flights", topic_id=FLIGHTS.topic_id, partitions=3, config={"max.message.bytes": "100"})
        cluster.view = view_of(limited, version=2)
        await cluster.partitions.view_changed(cluster.view)
        responses = await cluster.produce((FLIGHTS.topic_id, 0, batch), (FLIGHTS.topic_id, 1, batch))
        assert [response.error_code for response in responses] == [ErrorCode.message_too_large] * 2
        await cluster.partitions.close()

    run(main())


def test_a_view_that_comes_late_is_waited_for_and_batches_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "LATE_S", 20)

    async def main() -> None:
        cluster = Cluster(tmp_path, view_of(OTHER))
        late = [asyncio.ensure_future(cluster.produce((FLIGHTS.topic_id, 0, client_batch(1)))) for _ in range(3)]
        reader = asyncio.ensure_future(cluster.fetch((FLIGHTS.topic_id, 0, 0), max_wait_ms=20_000))
        ends = asyncio.ensure_future(cluster.list_offset(FLIGHTS.name, 1, -1))
        await asyncio.sleep(0)
        cluster.view = view_of(OTHER, FLIGHTS, version=2)
        late.append(asyncio.ensure_future(cluster.produce((FLIGHTS.topic_id, 0, client_batch(1)))))
        await asyncio.sleep(0)
        await cluster.partitions.view_changed(cluster.view)
        responses = [response for [response] in await asyncio.gather(*late)]
        assert [(response.error_code, response.base_offset) for response in responses] == [(0, at) for at in range(4)]
        [part] = await reader
        assert part.error_code == 0
        assert (await ends).error_code == 0
        [known] = await cluster.produce((FLIGHTS.topic_id, 0, client_batch(1)))
        assert known.base_offset == 4
        await cluster.partitions.close()

    run(main())


def test_logs_follow_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is being opened during the change."""
    large = client_batch(10)
    limited = LogConfig(max_message_bytes=len(large) - 1)

    async def main() -> None:
        cluster = Cluster(tmp_path)
        loop = asyncio.get_running_loop()
        real = PartitionLog.open

        def configure_while_opening(*arguments: Any, **named: Any) -> PartitionLog:
            opened = real(*arguments, **named)
            configured = threading.Event()
            loop.call_soon_threadsafe(cluster.partitions.configure, limited)
            loop.call_soon_threadsafe(configured.set)
            assert configured.wait(10)
            return opened

        [written] = await cluster.produce((FLIGHTS.topic_id, 0, large))
        assert written.error_code is ErrorCode.none
        monkeypatch.setattr(PartitionLog, "open", configure_while_opening)
        for partition in (1, 0):
            [refused] = await cluster.produce((FLIGHTS.topic_id, partition, large))
            assert refused.error_code is ErrorCode.message_too_large
        await cluster.partitions.close()

    run(main())


def test_of_a_topic_that_is_gone_nothing_is_kept(tmp_path: Path) -> None:
    """Nor by an actor that owned none of its partitions."""

    async def main() -> None:
        for index in (0, 1):
            cluster = Cluster(tmp_path, view_of(FLIGHTS, OTHER, logs=2), index)
            await cluster.partitions.view_changed(view_of(FLIGHTS, OTHER, version=2, logs=2))
            await cluster.partitions.view_changed(view_of(FLIGHTS, version=3, logs=2))
            assert OTHER.topic_id not in cluster.partitions._open_logs._topics
            await cluster.partitions.close()

    run(main())


def test_what_cannot_be_obeyed_of_a_topic_leaves_the_rest_of_it(tmp_path: Path) -> None:
    """Another program may have stored it. Without its retention.ms, a topic would lose what it should keep forever."""
    kept = Topic(
        name="kept", topic_id=UUID(int=3), partitions=1, config={"segment.bytes": "no number", "retention.ms": "-1"}
    )

    async def main() -> None:
        cluster = Cluster(tmp_path, view_of(kept))
        [written] = await cluster.produce((kept.topic_id, 0, client_batch()))
        assert written.error_code is ErrorCode.none
        [log] = cluster.partitions._open_logs.open_logs()
        assert (log.config.retention_ms, log.config.segment_bytes) == (-1, LogConfig().segment_bytes)
        await cluster.partitions.close()

    run(main())


def test_what_was_counted_is_logged_when_the_actor_stops(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        cluster = Cluster(tmp_path)

        async def none_left(topic: str, partition: int) -> int:
            raise RuntimeError("no epoch is left")

        cluster.partitions._open_logs._next_epoch = none_left
        for _ in range(3):
            [refused] = await cluster.produce((FLIGHTS.topic_id, 0, client_batch()))
            assert refused.error_code is ErrorCode.not_leader_or_follower
        await cluster.partitions.close()

    run(main())
    logged = [line for line in caplog.messages if "flights-0 cannot be opened" in line]
    assert [line.startswith("and 2 more from flights-0") for line in logged] == [False, True]


@pytest.mark.parametrize(
    "long",
    [client_batch(AT_ONCE_RECORDS + 1), client_batch(1, codec=GZIP, value=bytes(8 << 20))],
    ids=["many records", "many bytes"],
)
def test_a_batch_that_takes_long_holds_up_its_own_partition_only(
    tmp_path: Path, long: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: list[int] = []
    """How much the event loop has tried to decompress."""

    def decompressed(codec: int, packed: memoryview, *limit: int) -> bytes:
        if threading.current_thread() is threading.main_thread():
            here.append(len(packed))
        return decompress(codec, packed, *limit)

    monkeypatch.setattr(client_batch_module, "decompress", decompressed)

    async def main() -> None:
        cluster = Cluster(tmp_path)
        await cluster.produce((FLIGHTS.topic_id, 0, client_batch(1)), (FLIGHTS.topic_id, 1, client_batch(1)))
        first = cluster.partitions.place(FLIGHTS.topic_id, 0, long)
        behind = cluster.partitions.place(FLIGHTS.topic_id, 0, client_batch(1))
        beside = cluster.partitions.place(FLIGHTS.topic_id, 1, client_batch(1))
        assert isinstance(beside, Append)
        assert isinstance(first, asyncio.Future)
        assert isinstance(behind, asyncio.Future)
        count = read_header(long).record_count
        assert ((await first).result.base_offset, (await behind).result.base_offset) == (1, 1 + count)
        assert len(here) == bool(read_header(long).codec), "it is tried once"
        unsound = cluster.partitions.submit(
            FLIGHTS.topic_id, 0, changed(long, record_count=count + 1, last_offset_delta=count)
        )
        assert [each.error_code for each in await cluster.produce((FLIGHTS.topic_id, 0, client_batch(1)))] == [
            ErrorCode.none
        ]
        assert isinstance(unsound.exception(), InvalidRecord)
        await cluster.partitions.close()

    run(main())
