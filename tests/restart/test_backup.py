"""A backup of a Muster under load, restored into an empty directory, and used by the same clients' groups."""

from __future__ import annotations

import json
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from muster.actors.log.upkeep.hold import MAX_HOLD_S
from muster.placement.epochs import current_state
from muster.placement.layout import PRODUCER_ID_BLOCK, decode_producer_id_block
from muster.placement.zookeeper.client import ZooKeeperClient
from tests.cluster.consumer_groups.groups import PARTITIONS, create
from tests.cluster.consumer_groups.members import ConfluentMember, Producer, committed_offsets, everything
from tests.cluster.consumer_groups.transactional import Program, end, read
from tests.muster_process import Muster, eventually
from tests.restart.test_restart import (
    COUNT,
    GROUP,
    LOOP_GROUP,
    TOPIC,
    WAIT_S,
    CommitLoop,
    assert_kept,
    fill,
    shown,
)

LOADED, TRANSACTED, TRANSACTION_GROUP = "loaded", "transacted", "transaction-group"
MARKER = "planted-secret"
USER, USER_CONFIG = "/config/users/ann", f'{{"version":1,"config":{{"SCRAM-SHA-256":"{MARKER}"}}}}'.encode()
_WITH_LOGS = ("log", "offsets", "transactions", "standby")
_PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}


def start_of(storage: Path) -> Muster:
    return Muster(storage, ["--gateways", "1", "--log-format", "json"], _PROPERTIES)


def epochs(zk: ZooKeeperClient) -> dict[int, int]:
    return {partition: current_state(zk, LOADED, partition).leader_epoch for partition in range(PARTITIONS)}


def last_producer_id(zk: ZooKeeperClient) -> int:
    return decode_producer_id_block(zk.get(PRODUCER_ID_BLOCK)[0]).stop


@pytest.mark.timeout(600)
def test_a_backup_under_load_is_restored(tmp_path: Path) -> None:
    storage, target = tmp_path / "storage", tmp_path / "backup"
    with start_of(storage) as muster:
        kept = Producer(muster.bootstrap, TOPIC)
        fill(muster, kept)
        configs = shown(muster)["configs"]
        create(muster, LOADED)
        create(muster, TRANSACTED)
        zk = muster.zookeeper()
        zk.create(USER, USER_CONFIG, makepath=True)
        loaded, loop, stop = Producer(muster.bootstrap, LOADED), CommitLoop(muster.bootstrap), threading.Event()
        short = {"session.timeout.ms": 6000}  # of a member that the restored group has, and that is gone
        member = ConfluentMember(muster.bootstrap, LOADED, "loaded-group", **short)
        feeder = threading.Thread(target=loaded.send_until, args=(stop,), daemon=True)
        for thread in (feeder, loop, member):
            thread.start()
        with Program(muster.bootstrap, TRANSACTED, TRANSACTION_GROUP, "txn") as program:
            program.until(20)
            eventually(lambda: member.commits, lambda commits: commits > 3, "the group commits")
            before = dict(loaded.acknowledged)
            commits_before, transactions_before = loop.acknowledged, program.done
            with_logs = {name for name in muster.actors() if name.partition("-")[0] in _WITH_LOGS}
            made = json.loads(muster.cli("backup", str(target), "--json"))
            program.until(program.done + 10)  # nothing was disturbed
            assert program.failures == []
        stop.set()
        loop.stop.set()
        feeder.join(WAIT_S)
        member.leave()
        assert loaded.failed == []
        assert muster.cli("backup", str(target), check=False).startswith(f"muster: {target} exists already")
        lost_epochs, lost_producer_id = epochs(zk), last_producer_id(zk)
        zk.shut()
        muster.kill_everything()
    assert made["was_running"]
    assert set(made["held_ms"]) == with_logs
    assert 0 < min(made["held_ms"].values()) <= max(made["held_ms"].values()) == made["max_held_ms"] < MAX_HOLD_S * 1000
    assert_private(target)

    restored = tmp_path / "restored"
    again = start_of(restored)
    assert "can be restored" in again.cli("restore", str(target), "--dry-run")
    assert not restored.exists()
    assert "next: muster up" in again.cli("restore", str(target))
    assert "not empty" in again.cli("restore", str(target), check=False)
    with again:
        found = shown(again)
        assert found["configs"] == configs
        assert {GROUP, LOOP_GROUP} <= found["groups"]
        zk = again.zookeeper()
        assert zk.get(USER)[0] == USER_CONFIG
        assert_kept(again, kept.acknowledged)
        assert_records(again, before)
        assert commits_before <= committed_offsets(again.bootstrap, LOOP_GROUP, TOPIC, 1)[0] <= loop.acknowledged + 1

        total = Program(again.bootstrap, TRANSACTED, TRANSACTION_GROUP, "txn").committed()
        with Program(again.bootstrap, TRANSACTED, TRANSACTION_GROUP, "txn") as program:
            assert total >= transactions_before
            program.until(total + 5)
        total = program.done
        for partition in range(PARTITIONS):
            assert read(again, TRANSACTED, partition) == [*range(total)]

        assert_consumer_continues(again)
        new = epochs(zk)
        assert all(new[partition] > lost_epochs[partition] for partition in new)
        assert last_producer_id(zk) > lost_producer_id
        zk.shut()
        assert again.stop() == 0
    assert_logs_are_json(storage, tmp_path / "storage.log")
    assert_logs_are_json(restored, tmp_path / "restored.log")


def assert_private(target: Path) -> None:
    """Only the owner can read the backup, which has the users' password hashes."""
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (target, *target.rglob("*"))}
    assert modes <= {0o700, 0o600}
    assert any(b'"/config/users/ann"' in line for line in (target / "zookeeper.jsonl").open("rb"))


def assert_records(muster: Muster, acknowledged: dict[bytes, tuple[int, int]]) -> None:
    there = {(at, offset): value for at, offset, value in everything(muster.bootstrap, LOADED, PARTITIONS)}
    assert {value: place for value, place in acknowledged.items() if there.get(place) != value} == {}


def assert_consumer_continues(muster: Muster) -> None:
    """Require a group's member to read from the committed offsets on, which are not behind the end of their logs."""
    committed = committed_offsets(muster.bootstrap, "loaded-group", LOADED, PARTITIONS)
    assert committed
    ends = {partition: end(muster, LOADED, partition, "uncommitted") for partition in committed}
    assert all(committed[partition] <= ends[partition] for partition in committed)
    later = Producer(muster.bootstrap, LOADED)
    member = ConfluentMember(muster.bootstrap, LOADED, "loaded-group")
    member.start()
    later.send(COUNT)
    later.flush()
    wanted = set(later.acknowledged.values())
    places = lambda: {(partition, offset) for partition, offset, _ in list(member.read)}  # noqa: E731
    eventually(places, wanted.issubset, "the group continues", WAIT_S)
    member.leave()
    first = {partition: min(at for of, at, _ in member.read if of == partition) for partition in committed}
    assert first == committed


def assert_logs_are_json(storage: Path, stderr: Path) -> None:
    """Every line of every actor's log, and of ``muster up`` itself."""
    files = sorted((storage / "run" / "log").glob("*.log"))
    assert {path.stem for path in files} >= {"controller", "gateway-1", "log-0", "offsets-0", "reconciler"}
    for path in (*files, stderr):
        for line in path.read_text().splitlines():
            fields: dict[str, Any] = json.loads(line)
            assert {"time", "level", "logger", "actor", "message"} <= fields.keys()
            assert fields["actor"] == ("muster up" if path == stderr else path.stem)
            assert MARKER not in line
