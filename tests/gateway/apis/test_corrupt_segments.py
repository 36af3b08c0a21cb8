"""A corrupt segment, as seen by clients and operators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from muster.actors.log.errors import CorruptSegment
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.hashing import partition_for
from muster.placement.view import OFFSETS_TOPIC
from tests.gateway.apis.test_data_apis import fetch, list_offsets, produce
from tests.gateway.group_client import Member, find
from tests.gateway.serving import Serving
from tests.log.support import client_batch, segment_files
from tests.zookeeper_fixture import eventually

Fresh = Callable[[str], str]
EARLIEST, LATEST = -2, -1
PARTITIONS = 8
"""Enough that log-0, on which the gateway reports, has one."""


def damage(segment: Path) -> None:
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)


def corrupt_segments(full: Serving) -> float:
    _, text = full.http("/metrics")
    found = [line for line in text.splitlines() if line.startswith("muster_log_corrupt_segments{")]
    assert len(found) == 1, "of log-0; gateway 2 reports log-1"
    return float(found[0].rsplit(" ", 1)[1])


def test_offsets_in_it_are_refused_and_all_others_served(full: Serving, fresh: Fresh) -> None:
    name = fresh("corrupt")
    topic = full.create(name, PARTITIONS, segment_bytes="1000")
    partition = next(number for number in range(PARTITIONS) if full.gateway.view.log_of(topic, number) == 0)
    for _ in range(6):
        [result] = produce(full.client, (topic, partition, client_batch(1, value=bytes(300))))
        assert result.error_code == ErrorCode.none
    before = corrupt_segments(full)
    assert full.actors is not None
    damage(segment_files(full.actors.storage / "logs" / f"{name}-{partition}")[0])

    def at(offset: int) -> tuple[ErrorCode, bool]:
        [result] = fetch(full.client, (topic, partition, offset))
        return ErrorCode(result.error_code), bool(result.records)

    assert [at(offset) for offset in range(6)] == [(ErrorCode.kafka_storage_error, False)] * 2 + [
        (ErrorCode.none, True)
    ] * 4
    [result] = produce(full.client, (topic, partition, client_batch(1)))
    assert (result.error_code, result.base_offset) == (ErrorCode.none, 6)
    [end] = list_offsets(full.client, 10, name, (partition, LATEST))
    [start] = list_offsets(full.client, 10, name, (partition, EARLIEST))
    assert [(each.error_code, each.offset) for each in (start, end)] == [(ErrorCode.none, 0), (ErrorCode.none, 7)]
    assert corrupt_segments(full) == before + 1


def test_a_coordinator_does_not_load_half_of_its_groups(full: Serving, fresh: Fresh) -> None:
    group, topic = fresh("group"), full.create(fresh("topic"))
    find(full.client, 4, group)
    member = Member(full.connect(), group)
    assert [error for _, _, error in member.commit((topic, 0, 7))] == [ErrorCode.none]
    assert full.actors is not None
    partition = partition_for(group, full.gateway.view.topics[OFFSETS_TOPIC].partitions)
    full.run(full.actors.offsets[partition].stop())
    directory = full.actors.storage / "logs" / f"{OFFSETS_TOPIC}-{partition}"
    segment = next(path for path in segment_files(directory) if path.stat().st_size)
    whole = segment.read_bytes()
    damage(segment)
    with pytest.raises(CorruptSegment, match=segment.name):
        full.run(full.actors.start_offsets(partition))
    full.controller.offsets[partition] = None
    full.follow(full.controller.view())
    errors = {ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available, ErrorCode.not_coordinator}
    found = full.client.exchange(9, 5, {"group_id": group, "topics": None})
    assert found.error_code in errors, "not a group without offsets"
    segment.with_name(f"{segment.name}.corrupt").unlink()
    segment.write_bytes(whole)  # from a backup
    eventually(  # a request for it starts it
        lambda: [offset for _, offset, _, _ in member.committed([topic])] == [7], "the coordinator is back with all"
    )
