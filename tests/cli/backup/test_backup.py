"""Backups: files that make a directory one, and others that do not."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.gateway.cli.backup.capture import Captured, capture
from muster.gateway.cli.backup.contents import MANIFEST, Manifest
from muster.gateway.cli.backup.holding import longest
from muster.gateway.cli.backup.making import Source, make_backup
from muster.gateway.cli.backup.nodes import LEADER_EPOCHS, PRODUCER_IDS
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.main import cli
from muster.gateway.cli.output import LoggedSteps
from muster.gateway.cli.storage import directory as storage_directory
from muster.gateway.cli.storage.fit import cluster_id_in, prepare
from muster.placement.epochs import next_epoch, next_producer_id_block
from muster.placement.layout import broker_path
from muster.placement.topics import TopicRegistry
from muster.placement.zookeeper.access import Access
from muster.placement.zookeeper.client import ZooKeeperClient, connect
from tests.cli.runner import runner
from tests.log.support import client_batch, open_log, run, segment_files

TOPIC, RECORDS = "orders", 20


@pytest.fixture
def storage(tmp_path: Path, zk: ZooKeeperClient) -> Path:
    """Return a storage that has a topic with records and a config, and the remains of a topic that was deleted."""
    storage = tmp_path / "storage"
    prepare(storage)
    cluster_id_in(storage)
    topic = TopicRegistry(zk).create(TOPIC, 1, config={"retention.ms": "777"})
    epoch = next_epoch(zk, TOPIC, 0, "log-0")
    next_producer_id_block(zk)
    zk.create(broker_path(1), b"{}", ephemeral=True, makepath=True)
    zk.create("/of/others", b"theirs", makepath=True)
    write(storage / "logs" / f"{TOPIC}-0", topic.topic_id, epoch, RECORDS)
    write(storage / "logs" / "deleted-0", uuid4(), 0, 1)
    table = storage / "metrics" / "samples" / "date=2026-01-01" / "hour=00"
    table.mkdir(parents=True)
    (table / "a.parquet").write_bytes(b"rows")
    return storage


def write(directory: Path, topic_id: UUID, epoch: int, count: int) -> None:
    async def scenario() -> None:
        log = open_log(directory, epoch, topic_id=topic_id)
        for _ in range(count):
            await log.append(client_batch())
        await log.close()

    run(scenario())


def end_of(directory: Path, topic_id: UUID, epoch: int) -> int:
    async def scenario() -> int:
        log = open_log(directory, epoch, topic_id=topic_id)
        await log.close()
        return log.high_watermark

    return run(scenario())


def made(storage: Path, target: Path, zk: ZooKeeperClient, **changes: Any) -> Manifest:
    source = Source(
        **{
            "storage": storage,
            "cluster_id": storage_directory.cluster_id(storage),
            "zookeeper": lambda: contextlib.nullcontext(zk),
            "at_a_moment": lambda work: (work(), {}),
            "was_running": True,
            "with_tables": True,
            **changes,
        }
    )
    manifest, _ = make_backup(source, target, LoggedSteps())
    return manifest


def failed(*arguments: str) -> str:
    done = runner().invoke(cli, arguments)
    assert done.exit_code == 1, done.output
    assert isinstance(done.exception, SystemExit)
    return done.output + done.stderr


@pytest.fixture
def backup(storage: Path, tmp_path: Path, zk: ZooKeeperClient) -> Path:
    made(storage, tmp_path / "backup", zk)
    return tmp_path / "backup"


@pytest.fixture
def empty_zookeeper(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> str:
    """Return a chroot that does not exist yet."""
    return f"{zookeeper.hosts}/restored-{uuid4()}"


def test_what_is_restored(
    storage: Path, backup: Path, tmp_path: Path, zk: ZooKeeperClient, empty_zookeeper: str
) -> None:
    restored = tmp_path / "restored"
    done = runner().invoke(cli, ["restore", str(backup), "--storage", str(restored), "--zookeeper", empty_zookeeper])
    assert done.exit_code == 0, done.output
    prepare(restored)
    assert cluster_id_in(restored) == storage_directory.cluster_id(storage)
    assert sorted(path.name for path in (restored / "logs").iterdir()) == [f"{TOPIC}-0"]
    assert (restored / "metrics/samples/date=2026-01-01/hour=00/a.parquet").read_bytes() == b"rows"
    there = connect(empty_zookeeper, timeout_s=10)
    topic = TopicRegistry(there).load()[TOPIC]
    assert topic == TopicRegistry(zk).load()[TOPIC]
    assert not there.exists(broker_path(1))
    assert not there.exists("/of/others")
    epoch = next_epoch(there, TOPIC, 0, "log-0")
    assert epoch == next_epoch(zk, TOPIC, 0, "log-0") + LEADER_EPOCHS
    assert next_producer_id_block(there).start >= next_producer_id_block(zk).start + PRODUCER_IDS - 1000
    there.shut()
    assert end_of(restored / "logs" / f"{TOPIC}-0", topic.topic_id, epoch) == RECORDS


def test_nothing_is_restored_over_data(backup: Path, tmp_path: Path, zk_hosts: str) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "file").touch()
    assert "is not empty (file is there)" in failed("restore", str(backup), "--storage", str(taken))
    text = failed("restore", str(backup), "--storage", str(tmp_path / "new"), "--zookeeper", zk_hosts, "--dry-run")
    assert "has /brokers/topics already" in text
    assert not (tmp_path / "new").exists()


def _flip(backup: Path) -> str:
    path = next((backup / "storage/logs").rglob("*.log"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    return "its content has changed"


def _cut(backup: Path) -> str:
    path = backup / "zookeeper.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    return "its content has changed"


def _remove(backup: Path) -> str:
    next((backup / "storage/logs").rglob("*.log")).unlink()
    return "No such file"


def _add(backup: Path) -> str:
    (backup / "storage/logs/more").touch()
    return "not a file of the backup"


@pytest.mark.parametrize("damage", [_flip, _cut, _remove, _add])
def test_damage_is_found(backup: Path, tmp_path: Path, damage: Callable[[Path], str]) -> None:
    assert runner().invoke(cli, ["backup", "--verify", str(backup)]).exit_code == 0
    said = damage(backup)
    assert said in failed("backup", "--verify", str(backup))
    assert "is damaged" in failed("restore", str(backup), "--storage", str(tmp_path / "new"), "--dry-run")


def test_a_restore_that_finds_damage_leaves_nothing_that_starts(backup: Path, tmp_path: Path) -> None:
    _flip(backup)
    new = tmp_path / "new"
    assert "has changed since the backup" in failed("restore", str(backup), "--storage", str(new))
    with pytest.raises(CliError, match="a muster restore into it has not ended"):
        prepare(new)


def test_a_backup_that_did_not_end_is_none(storage: Path, tmp_path: Path, zk: ZooKeeperClient) -> None:
    @contextlib.contextmanager
    def killed() -> Iterator[ZooKeeperClient]:
        raise KeyboardInterrupt
        yield zk

    with pytest.raises(KeyboardInterrupt):
        made(storage, tmp_path / "backup", zk, zookeeper=killed)
    assert not (tmp_path / "backup").exists()
    assert list((storage / "run" / "backup").iterdir()) == []
    (tmp_path / "half").mkdir()
    assert "is no backup: it has no manifest.json" in failed("restore", str(tmp_path / "half"))


def test_a_zookeeper_that_is_not_this_musters(storage: Path, tmp_path: Path, empty_zookeeper: str) -> None:
    """Without its topics, no log would be in the backup."""
    target = tmp_path / "backup"
    arguments = ["backup", str(target), "--storage", str(storage)]
    assert "ZooKeeper has no topic" in failed(*arguments, "--zookeeper", empty_zookeeper)
    assert "has no ZooKeeper of its own" in failed(*arguments)
    assert not (storage / "zookeeper").exists()
    assert not target.exists()


def test_one_backup_at_a_time(storage: Path, tmp_path: Path, zk: ZooKeeperClient) -> None:
    def another(work: Callable[[], list[Captured]]) -> tuple[list[Captured], dict[str, float]]:
        with pytest.raises(CliError, match="another muster backup"):
            made(storage, tmp_path / "second", zk)
        return work(), {}

    made(storage, tmp_path / "first", zk, at_a_moment=another)
    assert "exists already" in failed("backup", str(tmp_path / "first"), "--storage", str(storage))


def test_a_newer_format_is_refused(backup: Path) -> None:
    fields = json.loads((backup / MANIFEST).read_text())
    (backup / MANIFEST).write_text(json.dumps({**fields, "version": 99}))
    assert "has backup format 99" in failed("backup", "--verify", str(backup))


def test_what_is_written_after_the_moment_is_not_in_it(storage: Path, tmp_path: Path, zk: ZooKeeperClient) -> None:
    (segment,) = [path for path in segment_files(storage / "logs" / f"{TOPIC}-0") if path.stat().st_size]
    before = segment.read_bytes()

    def moment(work: Callable[[], list[Captured]]) -> tuple[list[Captured], dict[str, float]]:
        captured = work()
        with segment.open("ab") as file:
            file.write(b"later")
        segment.with_suffix(".index").unlink()
        return captured, {}

    made(storage, tmp_path / "backup", zk, at_a_moment=moment)
    copied = tmp_path / "backup" / "storage" / segment.relative_to(storage)
    assert copied.read_bytes() == before
    assert copied.with_suffix(".index").exists()


def test_a_manifest_is_captured_with_its_files(tmp_path: Path) -> None:
    """While another thread replaces them, as retention and the cleaner do: new file, manifest, old file removed."""
    folder, stop = tmp_path / "logs" / "t-0", threading.Event()
    folder.mkdir(parents=True)

    def replace(number: int) -> None:
        (folder / f"{number}.log").write_text("segment")
        (folder / "new.tmp").write_text(f"{number}.log")
        (folder / "new.tmp").rename(folder / "segments-0")
        (folder / f"{number - 1}.log").unlink(missing_ok=True)

    def churn() -> None:
        for number in itertools.count(1):
            if stop.is_set():
                return
            replace(number)
            stop.wait(0.0005)

    replace(0)
    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for number in range(50):
            captured = capture(tmp_path, [folder], tmp_path / str(number))
            found = {Path(each.path).name: each.link for each in captured}
            assert found["segments-0"].read_text() in found
    finally:
        stop.set()
        thread.join()


def test_nodes_that_may_not_be_read_are_not_left_out(storage: Path, tmp_path: Path, zk_hosts: str) -> None:
    credentials, target = tmp_path / "credentials", tmp_path / "backup"
    credentials.write_text("muster:secret\n")
    access = Access(credentials_file=str(credentials), set_acl=True)
    secured = connect(zk_hosts, access, timeout_s=10)
    secured.call(secured.create_async, "/config/users/ann", b"hash", makepath=True)
    secured.shut()
    of_stopped = ["backup", str(target), "--storage", str(storage), "--zookeeper", zk_hosts]
    assert "does not let this user read" in failed(*of_stopped)
    assert not target.exists()
    access_properties = ["--set", f"zookeeper.credentials.file={credentials}", "--set", "zookeeper.set.acl=true"]
    assert runner().invoke(cli, [*of_stopped, *access_properties]).exit_code == 0
    assert b"/config/users/ann" in (target / "zookeeper.jsonl").read_bytes()


def test_how_long_clients_waited() -> None:
    printed = longest({"log-0": 7.2, "offsets-17": 17.6})
    assert printed == "clients waited at most 18 ms for acknowledgements (offsets-17)"
    assert longest({}) == "no client had to wait"
