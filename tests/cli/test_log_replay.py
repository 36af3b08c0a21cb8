"""``muster log replay`` over logs that a coordinator wrote, over damaged directories, and over other directories."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import Result

from muster.actors.group.codec.consumer_records import (
    ConsumerKey,
    ConsumerRecord,
    GroupEpoch,
    consumer_record,
)
from muster.actors.group.codec.consumer_records import MemberMetadata as ConsumerMember
from muster.actors.group.codec.records import (
    CommittedOffset,
    GroupKey,
    GroupMetadata,
    MemberMetadata,
    OffsetKey,
    group_record,
    offset_record,
)
from muster.actors.group.types import GroupId, MemberId, Record
from muster.gateway.cli.main import cli
from tests.cli.runner import runner
from tests.cli.test_log_commands import content_of, flip
from tests.log.support import NOW_MS, client_batch, lose_what_is_not_synced, open_log, run, segment_files

OFFSETS = "__consumer_offsets-3"
SUBSCRIPTION = b"\0\0\0\0\0\1\0\x08invoices\xff\xff\xff\xff"
ASSIGNMENT = b"\0\0\0\0\0\1\0\x08invoices\0\0\0\1\0\0\0\2\xff\xff\xff\xff"
SHARE_GROUP_KEY = b"\0\x0a\0\1g"
"""ShareGroupMetadataKey (KIP-932)."""


def committed(offset: int, partition: int = 2, group: str = "billing", metadata: str = "") -> Record:
    value = CommittedOffset(offset=offset, metadata=metadata, commit_timestamp_ms=NOW_MS)
    return offset_record(OffsetKey(GroupId(group), "invoices", partition), value)


def group_of(generation: int, *members: str, group: str = "billing") -> Record:
    stored = tuple(
        MemberMetadata(
            member_id=MemberId(member),
            group_instance_id=f"{member}-instance",
            client_id="c",
            client_host="/10.0.0.8",
            rebalance_timeout_ms=300_000,
            session_timeout_ms=45_000,
            subscription=SUBSCRIPTION,
            assignment=ASSIGNMENT,
        )
        for member in members
    )
    leader = MemberId(members[0]) if members else None
    value = GroupMetadata(
        protocol_type="consumer",
        generation=generation,
        protocol="range" if members else None,
        leader=leader,
        state_timestamp_ms=NOW_MS,
        members=stored,
    )
    return group_record(GroupKey(GroupId(group)), value)


RECORDS = [
    committed(5),
    group_of(7, "c-1"),
    committed(41, metadata="half way"),
    committed(3, partition=1),
    offset_record(OffsetKey(GroupId("billing"), "invoices", 1), None),
    group_of(2, "d-1", group="empty"),
    group_of(3, group="empty"),
    committed(9, group="simple"),
    group_of(1, "x", group="gone"),
    group_record(GroupKey(GroupId("gone")), None),
]


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    fill(tmp_path / "logs" / OFFSETS, *RECORDS)
    return tmp_path


def fill(directory: Path, *records: Record, epoch: int = 4) -> None:
    """Each record in its own batch."""

    async def fill() -> None:
        log = open_log(directory, epoch, topic_id=UUID(int=2))
        for record in records:
            await log.append_records([(record.key, record.value)], NOW_MS)
        await log.close()

    run(fill())


def replay(storage: Path, what: str, *options: str) -> Result:
    return runner().invoke(cli, ["log", "replay", what, "--storage", str(storage), *options])


def groups(done: Result) -> dict[str, dict[str, Any]]:
    return {group["group"]: group for group in json.loads(done.stdout)["groups"]}


def test_groups_are_those_that_a_coordinator_loads(storage: Path) -> None:
    before = content_of(storage)
    done = replay(storage, OFFSETS, "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    found = groups(done)
    assert {name: (group["state"], group["generation"]) for name, group in found.items()} == {
        "billing": ("Stable", 7),
        "empty": ("Empty", 3),
        "simple": ("Empty", 0),
    }
    assert found["billing"]["members"] == [
        {
            "member_id": "c-1",
            "group_instance_id": "c-1-instance",
            "client_id": "c",
            "host": "10.0.0.8",
            "session_timeout_ms": 45_000,
            "rebalance_timeout_ms": 300_000,
            "assignment": [{"topic": "invoices", "partition": 2}],
        }
    ]
    (offset,) = found["billing"]["offsets"]
    assert (offset["partition"], offset["offset"], offset["metadata"]) == (2, 41, "half way")
    assert json.loads(done.stdout)["records"] == len(RECORDS)
    assert content_of(storage) == before, "nothing is written"


def test_the_same_as_tables(storage: Path) -> None:
    done = replay(storage, OFFSETS)
    assert done.exit_code == 0
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["billing", "Stable", "consumer", "range", "7", "c-1", "1", "1"] in rows
    assert ["simple", "Empty", "-", "-", "0", "-", "0", "1"] in rows
    assert ["billing", "c-1", "c-1-instance", "c", "10.0.0.8", "45000", "invoices-2"] in rows
    assert ["billing", "invoices", "2", "41", "-1", "half", "way"] in rows


def test_a_copy_anywhere_and_under_any_name(storage: Path, tmp_path: Path) -> None:
    copy = tmp_path / "from a user"
    shutil.copytree(storage / "logs" / OFFSETS, copy)
    assert groups(replay(tmp_path / "elsewhere", str(copy), "--json")) == groups(replay(storage, OFFSETS, "--json"))


def test_a_directory_of_apache_kafka(storage: Path, tmp_path: Path) -> None:
    kafkas = tmp_path / "kafka" / OFFSETS
    kafkas.mkdir(parents=True)
    (segment,) = segment_files(storage / "logs" / OFFSETS)
    shutil.copy(segment, kafkas / "00000000000000000000.log")
    assert groups(replay(tmp_path, str(kafkas), "--json")) == groups(replay(storage, OFFSETS, "--json"))


def test_records_of_an_epoch_that_was_fenced_do_not_count(storage: Path) -> None:
    directory = storage / "logs" / OFFSETS
    (old,) = segment_files(directory)
    fill(directory, committed(42), epoch=5)
    late = tmp_log(storage, committed(1000))
    old.write_bytes(old.read_bytes() + late)
    (offset,) = groups(replay(storage, OFFSETS, "--json"))["billing"]["offsets"]
    assert offset["offset"] == 42


def tmp_log(storage: Path, *records: Record) -> bytes:
    """Return the bytes of the batches after those of ``RECORDS``."""
    directory = storage / "logs" / "scratch-0"
    fill(directory, *RECORDS, *records)
    (segment,) = segment_files(directory)
    (old,) = [path for path in segment_files(storage / "logs" / OFFSETS) if path.stat().st_size][:1]
    return segment.read_bytes()[old.stat().st_size :]


def test_an_empty_log(storage: Path) -> None:
    fill(storage / "logs" / "__consumer_offsets-4")
    done = replay(storage, "__consumer_offsets-4", "--json")
    assert (done.exit_code, groups(done)) == (0, {})
    assert "__consumer_offsets-4 holds no records" in done.stderr
    (storage / "nothing").mkdir()
    assert "holds no records" in replay(storage, str(storage / "nothing")).stderr


def test_a_torn_tail_is_passed_over(storage: Path) -> None:
    directory = storage / "logs" / OFFSETS
    lose_what_is_not_synced(directory)
    (segment,) = segment_files(directory)
    segment.write_bytes(segment.read_bytes()[:-3])
    done = replay(storage, OFFSETS, "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert set(groups(done)) == {"billing", "empty", "simple", "gone"}, "the last record was the tombstone"


def test_damage_is_named_and_the_rest_is_shown(storage: Path) -> None:
    directory = storage / "logs" / OFFSETS
    (segment,) = segment_files(directory)
    content = segment.read_bytes()
    flip(segment, content.index(b"half way"))
    done = replay(storage, OFFSETS, "--json")
    assert done.exit_code == 1
    assert f"DAMAGE: {segment}" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("Error: 1 problem; muster log verify")
    (offset,) = [each for each in groups(done)["billing"]["offsets"] if each["partition"] == 2]
    assert offset["offset"] == 5, "of the commit before"


@pytest.mark.parametrize(
    "record",
    [Record(committed(1).key, b"\0\x63" + b"x" * 20), Record(b"\0\1\0", b""), Record(committed(1).key, b"\0\3\0")],
    ids=["an unknown version", "half a key", "half a value"],
)
def test_a_record_that_cannot_be_read_is_named(storage: Path, record: Record) -> None:
    fill(storage / "logs" / OFFSETS, record, epoch=5)
    done = replay(storage, OFFSETS, "--json")
    assert done.exit_code == 1
    assert f"DAMAGE: offset {len(RECORDS)}: " in done.stderr
    assert {"empty", "simple"} <= groups(done).keys()


def test_records_of_other_kinds_of_groups_are_counted(storage: Path) -> None:
    fill(storage / "logs" / OFFSETS, Record(SHARE_GROUP_KEY, b"\0\0\0\0\0\1"), epoch=5)
    done = replay(storage, OFFSETS)
    assert done.exit_code == 0
    assert f"1 record of type 10, from offset {len(RECORDS)}: of groups that are not served" in done.stderr


def test_what_is_no_partition_of_groups(storage: Path) -> None:
    async def fill_flights() -> None:
        log = open_log(storage / "logs" / "flights-0", 1)
        await log.append(client_batch(2))
        await log.close()

    run(fill_flights())
    done = replay(storage, "flights-0")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "is no partition of __consumer_offsets" in done.stderr
    assert "is no directory; name one of __consumer_offsets-<p>" in replay(storage, "nothing-0").stderr
    (directory,) = (storage / "logs" / OFFSETS,)
    next(directory.glob("segments-*")).write_text("garbage")
    assert "cannot be read" in replay(storage, OFFSETS).stderr


def test_consumer_groups(storage: Path) -> None:
    member = ConsumerMember(client_id="biller", client_host="/10.0.0.7", topics=("t",))
    records = [
        consumer_record(ConsumerKey(ConsumerRecord.MEMBER_METADATA, GroupId("modern"), "m"), member),
        consumer_record(ConsumerKey(ConsumerRecord.METADATA, GroupId("modern")), GroupEpoch(epoch=4)),
    ]
    fill(storage / "logs" / OFFSETS, *records, epoch=5)
    done = replay(storage, OFFSETS)
    assert done.exit_code == 0, done.stderr
    row = next(line.split() for line in done.stdout.splitlines() if line.startswith("modern"))
    assert row[:6] == ["modern", "Assigning", "consumer", "-", "4", "-"]
    found = groups(replay(storage, OFFSETS, "--json"))["modern"]
    assert (found["epoch"], found["members"][0]["client_id"]) == (4, "biller")
