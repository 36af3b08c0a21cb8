"""muster log verify and muster log dump over real files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from click.testing import Result

from muster.actors.group.codec.records import (
    CommittedOffset,
    GroupKey,
    GroupMetadata,
    MemberMetadata,
    OffsetKey,
    group_record,
    offset_record,
)
from muster.actors.group.types import GroupId, MemberId
from muster.actors.log.config import LogConfig
from muster.actors.log.partition import PartitionLog
from muster.gateway.cli.main import cli
from tests.cli.runner import runner
from tests.log.support import GZIP, NOW_MS, client_batch, lose_what_is_not_synced, open_log, run, segment_files
from tests.log.transactions import support as transactions

SMALL = LogConfig(segment_bytes=500, index_interval_bytes=150)
OFFSETS = "__consumer_offsets-3"


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """``flights-0``, -1 and ``__consumer_offsets-3``, stopped in order."""
    directory = tmp_path / "muster-data"
    (directory / "logs").mkdir(parents=True)
    run(_fill(directory / "logs"))
    return directory


async def _fill(logs: Path) -> None:
    for number in range(2):
        log = open_log(logs / f"flights-{number}", 1, config=SMALL)
        for sequence in range(10):
            await log.append(client_batch(2, codec=GZIP if sequence == 3 else 0, producer=(9, 0, 2 * sequence)))
        await log.close()
    log = open_log(logs / OFFSETS, 4, topic_id=UUID(int=2))
    await _groups(log)
    await log.close()


async def _groups(log: PartitionLog) -> None:
    key = OffsetKey(GroupId("billing"), "invoices", 2)
    offset = CommittedOffset(offset=41, metadata="half way", commit_timestamp_ms=NOW_MS)
    member = MemberMetadata(
        member_id=MemberId("c-1"),
        client_id="c",
        client_host="/10.0.0.8",
        rebalance_timeout_ms=300_000,
        session_timeout_ms=45_000,
        subscription=b"\0\0\0\0\0\1\0\x08invoices\xff\xff\xff\xff",
        assignment=b"\0\0\0\0\0\1\0\x08invoices\0\0\0\1\0\0\0\2\xff\xff\xff\xff",
    )
    group = GroupMetadata(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader=MemberId("c-1"),
        state_timestamp_ms=NOW_MS,
        members=(member,),
    )
    for record in (offset_record(key, offset), group_record(GroupKey(GroupId("billing")), group)):
        await log.append_records([(record.key, record.value)], NOW_MS)
    gone = offset_record(key, None)
    await log.append_records([(gone.key, gone.value), (b"?", b"\xff")], NOW_MS)


def muster(storage: Path, command: str, *arguments: str) -> Result:
    return runner().invoke(cli, ["log", command, *arguments, "--storage", str(storage)])


def verified(storage: Path, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    done = muster(storage, "verify", "--json", *arguments)
    return done.exit_code, json.loads(done.stdout)


def content_of(storage: Path) -> dict[str, str]:
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in storage.rglob("*") if path.is_file()}


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_sound_logs(storage: Path) -> None:
    before = content_of(storage)
    code, reports = verified(storage)
    assert code == 0
    assert [(each["partition"], each["records"], each["log_end_offset"]) for each in reports] == [
        (OFFSETS, 4, 4),
        ("flights-0", 20, 20),
        ("flights-1", 20, 20),
    ]
    assert [each["findings"] for each in reports] == [[], [], []]
    assert [each["partition"] for each in verified(storage, "flights")[1]] == ["flights-0", "flights-1"]
    shown = muster(storage, "verify", "flights-1")
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[1].split()[-1] == "sound"
    assert muster(storage, "dump", "flights-0").exit_code == 0
    assert content_of(storage) == before, "nothing is written"


@pytest.mark.parametrize(
    "damage", ["bit", "missing", "truncated", "set aside", "index", "snapshot", "manifest", "claim"]
)
def test_damage_is_named(storage: Path, damage: str) -> None:
    directory = storage / "logs" / "flights-0"
    segment = segment_files(directory)[1]
    named = segment
    match damage:
        case "bit":
            flip(segment, 150)
        case "missing":
            run(_reopen(directory))  # now the manifest lists it
            segment.unlink()
        case "truncated":
            segment.write_bytes(segment.read_bytes()[:-9])
        case "set aside":
            named = segment.rename(segment.with_name(f"{segment.name}.corrupt"))
            flip(named, 150)
        case "index":
            named = segment.with_suffix(".index")
            flip(named, 120)
        case "snapshot":
            named = segment_files(directory)[-1].with_suffix(".snapshot")
            flip(named, 30)
        case "manifest":
            named = directory / "segments-0000000001"
            named.write_text("garbage")
        case "claim":
            (directory / "leader-epoch-0000000001").unlink()
            named = directory
    code, reports = verified(storage)
    assert code == 1
    [report] = [each for each in reports if not each["sound"]]
    assert report["partition"] == "flights-0"
    assert any(str(named) in f"{finding['path']} {finding['what']}" for finding in report["findings"])
    done = muster(storage, "verify")
    assert done.exit_code == 1
    assert f"DAMAGE: {named}" in done.stdout or damage == "manifest"


async def _reopen(directory: Path) -> None:
    await open_log(directory, 2, config=SMALL).close()


def test_a_torn_tail_is_a_note(storage: Path) -> None:
    directory = storage / "logs" / "flights-1"
    lose_what_is_not_synced(directory)
    tail = segment_files(directory)[-1]
    tail.write_bytes(tail.read_bytes()[:-3])
    code, [report] = verified(storage, "flights-1")
    assert code == 0
    assert [(finding["path"], finding["damage"]) for finding in report["findings"]] == [(str(tail), False)]


def test_dump_of_groups(storage: Path) -> None:
    said = [line for line in muster(storage, "dump", OFFSETS).stdout.splitlines() if not line.startswith("batch ")]
    assert [line.split("  ", 3)[-1] for line in said] == [
        'group billing, invoices-2: offset 41, leader epoch -1, metadata "half way"',
        "group billing: generation 7, consumer range, leader c-1: c-1 (client c on /10.0.0.8, session 45000 ms) "
        "has invoices-2",
        "group billing, invoices-2: offset deleted",
        "? -> 0xff",
    ]
    lines = [json.loads(line) for line in muster(storage, "dump", OFFSETS, "--format", "json").stdout.splitlines()]
    assert lines[0]["records"][0]["key"] == {"group": "billing", "topic": "invoices", "partition": 2}
    assert lines[0]["records"][0]["value"]["offset"] == 41
    assert lines[1]["records"][0]["value"]["members"][0]["assignment"] == [["invoices", 2]]
    assert lines[2]["records"][0]["value"] is None
    plain = json.loads(muster(storage, "dump", OFFSETS, "--format", "json", "--no-decode").stdout.splitlines()[0])
    assert isinstance(plain["records"][0]["key"], str)


def test_dump_from_an_offset_and_past_damage(storage: Path) -> None:
    directory = storage / "logs" / "flights-0"
    part = muster(storage, "dump", "flights-0", "--offset", "5", "--max", "4", "--format", "json")
    assert part.exit_code == 0
    batches = [json.loads(line) for line in part.stdout.splitlines()]
    assert [record["offset"] for batch in batches for record in batch["records"]] == [5, 6, 7, 8]
    assert (batches[1]["codec"], batches[1]["base_sequence"]) == ("gzip", 6)
    assert batches[0]["records"][0] | {"timestamp": 0} == {
        "offset": 5,
        "timestamp": 0,
        "key": "key-1",
        "value": "value",
        "headers": [["header", "content"]],
    }
    segment = segment_files(directory)[0]
    flip(segment, 100)
    damaged = muster(storage, "dump", str(segment))
    assert damaged.exit_code == 1
    assert "DAMAGE: the batch does not match its CRC" in damaged.stdout
    assert "key-0 -> value [header=content]" in damaged.stdout, "the batches behind it are shown"


def test_what_is_not_there(storage: Path) -> None:
    assert muster(storage, "dump", "nothing-0").exit_code == 1
    assert "neither a topic" in str(muster(storage, "verify", "nothing").stderr)
    assert muster(storage / "elsewhere", "verify").exit_code == 1


def test_dump_says_that_nothing_is_there(storage: Path) -> None:
    assert muster(storage, "dump", "flights-0", "--offset", "19").exit_code == 0
    beyond = muster(storage, "dump", "flights-0", "--offset", "20")
    assert (beyond.exit_code, beyond.stdout) == (1, "")
    assert "there is nothing at offset 20 or after it: the last record of" in beyond.stderr
    assert beyond.stderr.rstrip().endswith("flights-0 is at 19")


def test_dump_of_what_is_no_log(storage: Path) -> None:
    (storage / "notes").write_text("not a batch")
    done = muster(storage, "dump", str(storage / "notes"))
    assert done.exit_code == 1
    assert "notes is not a segment file, or is damaged from the start" in done.stderr


def test_json_of_headers_is_exact(storage: Path) -> None:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 24)
    builder.append(0, NOW_MS, "鍵".encode(), b"\x1b[31m", [("\x1b\n", b"\xff")])

    async def fill() -> None:
        log = open_log(storage / "logs" / "odd-0", 1)
        await log.append(bytes(builder.build()))
        await log.close()

    run(fill())
    (record,) = json.loads(muster(storage, "dump", "odd-0", "--format", "json").stdout)["records"]
    assert (record["key"], record["value"]) == ("鍵", "\x1b[31m")
    assert record["headers"] == [["\x1b\n", {"base64": "/w=="}]]
    assert r"鍵 -> \x1b[31m [\x1b\n=0xff]" in muster(storage, "dump", "odd-0").stdout


def test_transactions(tmp_path: Path) -> None:
    storage = tmp_path / "muster-data"
    directory = storage / "logs" / "flights-0"

    async def fill() -> None:
        log = open_log(directory, 1)
        await transactions.write(log, transactions.P, 3, 0)
        await log.enqueue_marker(transactions.marker(transactions.P, 3, commit=False, coordinator_epoch=7)).durable()
        await log.close()

    run(fill())
    assert verified(storage)[0] == 0
    shown = muster(storage, "dump", "flights-0").stdout.splitlines()
    assert shown[0].endswith("CreateTime, producer 1000 epoch 3 sequence 0, transactional")
    assert shown[-1].endswith("ABORT of coordinator epoch 7")
    [file] = directory.glob("*.txnindex")
    flip(file, 12)
    code, [report] = verified(storage)
    assert code == 1
    assert [finding["path"] for finding in report["findings"]] == [str(file)]
