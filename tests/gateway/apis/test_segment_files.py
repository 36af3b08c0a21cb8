"""Fetches whose records the gateway reads from the segment files itself."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from muster.actors.log.fetch import open_now
from muster.actors.wire.internal.fetch import FetchedPartition, FetchPartition, FetchRequest, Place
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.data.fetching import segment_files
from muster.placement.view import Topic
from tests.gateway.apis.test_data_apis import errors, fetch, produce
from tests.gateway.group_client import Fresh
from tests.gateway.serving import Serving
from tests.log.support import client_batch
from tests.zookeeper_fixture import eventually

DELETE_TOPICS = 20
PROPERTIES = {"log.segment.bytes": "10000"}


@pytest.fixture
def topic(full: Serving, fresh: Fresh) -> Topic:
    """One partition of several segments."""
    topic = full.create(fresh("t"), 1)
    for number in range(12):
        produce(full.client, (topic, 0, client_batch(2, value=b"%02d" % number * 1000)))
    return topic


def found(full: Serving, topic: Topic, *, by_place: bool, offset: int = 0) -> FetchedPartition:
    """Return the response of the partition's log actor."""
    assert full.actors is not None
    wanted = [FetchPartition(topic.topic_id, 0, -1, offset, 1 << 20)]
    request = FetchRequest(by_place, 0, 0, 1 << 20, wanted)

    async def look() -> list[FetchedPartition]:
        assert full.actors is not None
        fetch = open_now(request, full.actors.logs[full.gateway.view.log_of(topic, 0)].open_log)
        assert fetch is not None
        return fetch.response()

    response: list[FetchedPartition] = full.run(look())
    (only,) = response
    return only


def records_of(full: Serving, topic: Topic) -> bytes:
    return bytes(found(full, topic, by_place=False).records)


def test_the_places_hold_what_the_log_actor_would_send(full: Serving, topic: Topic) -> None:
    named = found(full, topic, by_place=True).places
    assert len({place.path for place in named}) > 1, "several segments"
    for found_there in (segment_files.PAGE_CACHE.read([named]), asyncio.run(segment_files.read_places([named]))):
        assert found_there is not None
        assert b"".join(found_there[0] or []) == records_of(full, topic)


def test_a_client_gets_all_of_it_in_one_response(full: Serving, topic: Topic) -> None:
    [response] = fetch(full.client, (topic, 0, 0))
    assert response.records == records_of(full, topic)
    [response] = fetch(full.client, (topic, 0, 5))
    assert response.records == found(full, topic, by_place=False, offset=5).records


def test_groups_that_read_the_same_share_what_was_read(full: Serving, topic: Topic) -> None:
    page_cache = segment_files.PageCache()
    first, *_, last = found(full, topic, by_place=True).places
    before = page_cache.read([[first, last]])
    assert before is not None
    for path in {first.path, last.path}:
        Path(path).unlink()
    after = page_cache.read([[last], [first]])
    assert after is not None
    assert (after[1][0] is before[0][0], after[0][0] is before[0][1]) == (True, True)


def test_little_is_kept_of_what_was_read(full: Serving, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    page_cache = segment_files.PageCache()
    first, second, *_ = found(full, topic, by_place=True).places
    monkeypatch.setattr(segment_files, "_RECENT_BYTES", first.size_bytes + second.size_bytes - 1)
    page_cache.read([[first], [second]])
    for place in (first, second):
        Path(place.path).unlink()
    assert page_cache.read([[second]]) is not None
    with pytest.raises(segment_files.NotThere):
        page_cache.read([[first]])


def test_what_is_not_in_the_page_cache_is_read_in_a_thread(
    full: Serving, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_threads: list[Sequence[Sequence[Place]]] = []
    read = segment_files.read_places

    async def recorded(named: Sequence[Sequence[Place]]) -> Any:
        in_threads.append(named)
        return await read(named)

    monkeypatch.setattr(segment_files, "MAX_NOW_BYTES", 0)
    monkeypatch.setattr(segment_files, "read_places", recorded)
    [response] = fetch(full.client, (topic, 0, 0))
    assert response.records == records_of(full, topic)
    assert len(in_threads) == 1


def test_a_file_that_is_gone_is_no_loss_while_the_actor_has_it_open(full: Serving, topic: Topic) -> None:
    """Retention can remove a segment between the answer of the actor and the read."""
    expected = records_of(full, topic)
    for place in found(full, topic, by_place=True).places:
        Path(place.path).unlink()
    [response] = fetch(full.client, (topic, 0, 0))
    assert (response.error_code, response.records) == (ErrorCode.none, expected)


def on_one_actor(full: Serving, fresh: Fresh, batches: int) -> list[Topic]:
    """Two topics of one partition each, on the same log actor, with batches of 2,000 bytes and a little."""
    topics = [full.create(fresh("t"), 1)]
    while len(topics) < 2:
        topic = full.create(fresh("t"), 1)
        if full.gateway.view.log_of(topic, 0) == full.gateway.view.log_of(topics[0], 0):
            topics.append(topic)
    for topic in topics:
        for _ in range(batches):
            produce(full.client, (topic, 0, client_batch(1, value=b"x" * 2000)))
    return topics


def test_what_the_actor_sends_instead_is_no_more_than_the_client_takes(full: Serving, fresh: Fresh) -> None:
    first, second = on_one_actor(full, fresh, 6)
    batch_bytes = len(records_of(full, first)) // 6
    for place in found(full, second, by_place=True).places:
        Path(place.path).unlink()
    responses = fetch(full.client, (first, 0, 0), (second, 0, 0), max_bytes=9 * batch_bytes)
    assert [len(response.records) for response in responses] == [6 * batch_bytes, 3 * batch_bytes]
    assert errors(responses) == [ErrorCode.none] * 2


def test_the_event_loop_reads_little_even_from_many_partitions(
    full: Serving, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = on_one_actor(full, fresh, 1)
    named = [found(full, topic, by_place=True).places for topic in topics]
    size_bytes = len(records_of(full, topics[0]))
    page_cache = segment_files.PageCache()
    monkeypatch.setattr(segment_files, "MAX_NOW_BYTES", 2 * size_bytes)
    assert page_cache.read(named) is not None
    monkeypatch.setattr(segment_files, "MAX_NOW_BYTES", 2 * size_bytes - 1)
    assert page_cache.read(named) is None
    assert [page_cache.read([each]) is not None for each in named] == [True, True]


def test_a_disk_that_hangs_fails_the_fetch(full: Serving, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    is_over = threading.Event()

    def hang(place: Place) -> bytes:
        is_over.wait(15)
        raise OSError("after a while")

    monkeypatch.setattr(segment_files, "MAX_NOW_BYTES", 0)
    monkeypatch.setattr(segment_files, "_READ_S", 0.2)
    monkeypatch.setattr(segment_files, "_read_place", hang)
    try:
        [response] = fetch(full.client, (topic, 0, 0))
    finally:
        is_over.set()
    assert (response.error_code, response.records) == (ErrorCode.kafka_storage_error, b"")


def test_no_place_leads_to_a_topic_that_was_created_again(full: Serving, topic: Topic) -> None:
    """Both topics have batches of the same offsets and sizes at the same positions."""
    old = found(full, topic, by_place=True).places

    async def publish() -> None:
        full.controller.publish(full.controller.view())

    full.run(publish())  # log actors delete what they have seen in a view
    (deleted,) = full.exchange(
        DELETE_TOPICS, 6, {"topics": [{"name": topic.name, "topic_id": None}], "timeout": 10_000}
    ).responses
    assert deleted.error_code is ErrorCode.none
    eventually(lambda: not Path(old[0].path).parent.exists(), "the directory is removed")
    again = full.create(topic.name, 1)
    for number in range(12):
        produce(full.client, (again, 0, client_batch(2, value=b"%02d" % (number + 50) * 1000)))
    new = found(full, again, by_place=True).places
    assert [place[1:] for place in new] == [place[1:] for place in old]
    for place in old:
        with pytest.raises(segment_files.NotThere):
            segment_files.PAGE_CACHE.read([[place]])
        assert asyncio.run(segment_files.read_places([[place]])) == [None]


def test_damage_is_found_by_the_gateway_and_reported_by_the_actor(full: Serving, topic: Topic) -> None:
    first = Path(found(full, topic, by_place=True).places[0].path)
    content = bytearray(first.read_bytes())
    content[200] ^= 1
    first.write_bytes(content)
    with pytest.raises(segment_files.NotThere):
        segment_files.PAGE_CACHE.read([found(full, topic, by_place=True).places])
    [response] = fetch(full.client, (topic, 0, 0))
    assert (response.error_code, response.records) == (ErrorCode.kafka_storage_error, b"")


def test_a_short_file_is_unread(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"x" * 10)
    place = Place(str(tmp_path / "short"), 5, 10, 0, 1)
    assert segment_files.PAGE_CACHE.read([[place]]) is None, "what is not there may be on its way from the disk"
    assert asyncio.run(segment_files.read_places([[place]])) == [None]


def test_a_file_system_that_always_waits_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS has no RWF_NOWAIT."""
    tried: list[int] = []

    def refuse(fd: int, buffers: object, offset: int, flags: int) -> int:
        tried.append(flags)
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "preadv", refuse)
    for topic in ("t-0", "u-0"):
        (tmp_path / topic).mkdir()
        (tmp_path / topic / "0.log").write_bytes(b"x" * 20)
    page_cache = segment_files.PageCache()
    for topic in ("t-0", "t-0", "u-0"):
        assert page_cache.read([[Place(str(tmp_path / topic / "0.log"), 0, 10, 0, 1)]]) is None
    assert tried == [os.RWF_NOWAIT], "of all logs in one folder, one is tried"
