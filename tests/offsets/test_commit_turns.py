"""Commits that come together are one write, and each has the response that it would have had alone."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from muster.actors.coordinator.batching import batches
from muster.actors.group.apis import offsets
from muster.actors.group.codec.records import CommittedOffset, offset_records
from muster.actors.group.messages import NO_MEMBER, CommitPartition, CommitTopic, OffsetCommit
from muster.actors.group.types import GroupId
from muster.actors.log.config import LogConfig
from muster.actors.log.format.batch import iter_headers
from muster.actors.offsets import commit_turns
from muster.actors.wire.kafka.codec import ErrorCode
from tests.offsets.shell import Shell, commit, committed, exchange, run

NONE = {ErrorCode.none}
TOPICS = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 2, "committed_metadata": ""}]}]


def batch_sizes(folder: Path) -> list[int]:
    """Return the number of records in each batch of the log."""
    return [header.record_count for path in folder.glob("*.log") for _, header in iter_headers(path.read_bytes())]


def test_commits_that_come_together_are_one_write(tmp_path: Path) -> None:
    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1)
        channel = await shell.serve(tmp_path / "socket")
        groups = [f"g{number}" for number in range(20)]
        commits = (commit(channel, offset, group=group) for offset, group in enumerate(groups))
        assert await asyncio.gather(*commits) == [NONE] * 20
        assert batch_sizes(tmp_path / "log") == [20]
        assert [await committed(channel, group) for group in groups] == [{0: offset} for offset in range(20)]
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario)


@pytest.mark.parametrize("partitions", [1, 2, 50])
@pytest.mark.parametrize("text", ["", "x", "\U0001f600" * 30])
def test_no_batch_is_larger_than_its_commits_were_taken_for(partitions: int, text: str) -> None:
    """Else commits that would fit alone are refused together."""
    rows = [CommitPartition(index, index, metadata=text) for index in range(partitions)]
    request = OffsetCommit(
        api_version=9,
        group_id=GroupId(text),
        generation_id=-1,
        member_id=NO_MEMBER,
        group_instance_id=None,
        topics=(CommitTopic.of(text, rows),),
    )
    values = [CommittedOffset(row.offset, 0, metadata=text, expire_timestamp_ms=1) for row in rows]
    (batch,) = batches(offset_records(GroupId(text), text, range(partitions), values), 1 << 30) or ()
    assert batch.size_bytes <= commit_turns._most_bytes(request)


def test_one_that_is_refused_refuses_no_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1)
        channel = await shell.serve(tmp_path / "socket")
        bad = {"group_id": "h", "generation_id_or_member_epoch": 3, "member_id": "unknown", "topics": TOPICS}
        before, refused, after = await asyncio.gather(
            commit(channel, 1), exchange(channel, 8, 9, **bad), commit(channel, 3)
        )
        assert (before, after) == (NONE, NONE)
        assert refused.topics[0].partitions[0].error_code is ErrorCode.group_id_not_found
        assert batch_sizes(tmp_path / "log") == [2]
        assert await committed(channel) == {0: 3}
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario)


def test_what_does_not_fit_in_one_batch_is_written_in_several(tmp_path: Path) -> None:
    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1, log=LogConfig(max_message_bytes=6_000))
        channel = await shell.serve(tmp_path / "socket")
        large = (commit(channel, offset, metadata="\u20ac" * 1_000) for offset in range(4))
        assert await asyncio.gather(*large, commit(channel, 9, group="small")) == [NONE] * 5
        assert batch_sizes(tmp_path / "log") == [1, 1, 1, 2]
        assert await committed(channel) == {0: 3}
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario)


def test_a_commit_at_which_the_core_fails_takes_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = offsets.commit

    def failing(shard: Any, request: Any, *arguments: Any) -> None:
        handle(shard, request, *arguments)
        if request.group_id == "bad":
            raise RuntimeError("a defect")

    monkeypatch.setattr(offsets, "commit", failing)

    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1)
        channel = await shell.serve(tmp_path / "socket")
        responses = await asyncio.gather(commit(channel, 1), commit(channel, 2, group="bad"), commit(channel, 3))
        assert responses == [NONE, {ErrorCode.unknown_server_error}, NONE]
        assert await committed(channel) == {0: 3}
        assert await committed(channel, "bad") == {}
        assert not shell.ended.is_set()
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario)


def test_a_request_that_follows_in_the_same_turn_finds_the_commits(tmp_path: Path) -> None:
    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1)
        channel = await shell.serve(tmp_path / "socket")
        wanted = {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}], "require_stable": True}
        first, found = await asyncio.gather(commit(channel, 7, group="g"), exchange(channel, 9, 7, **wanted))
        assert first == NONE
        assert found.topics[0].partitions[0].committed_offset == 7
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario)


def test_a_partition_that_stops_responds_to_what_has_come(tmp_path: Path) -> None:
    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1)
        channel = await shell.serve(tmp_path / "socket")
        responses = [asyncio.ensure_future(commit(channel, offset)) for offset in range(3)]
        await shell.partition.stop()
        found = await asyncio.gather(*responses)
        assert all(each in (NONE, {ErrorCode.not_coordinator}) for each in found)
        await shell.server.stop()

    run(scenario)
