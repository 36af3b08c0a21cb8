"""The file system of the storage is filled by another program, under a running Muster and real clients."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import confluent_kafka
import psutil
import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.muster_process import Muster, eventually

SIZE_BYTES = 64 << 20
WAIT_S = 60
REFUSED_S = 3
TOPIC = "filled"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a file system of its own, which needs the right to mount one."""
    directory = tmp_path / "disk"
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs", str(directory)], check=True)
    yield directory
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


def fill(disk: Path, name: str) -> None:
    with suppress(OSError), (disk / name).open("wb", buffering=0) as file:
        for size_bytes in (1 << 20, 4096):
            with suppress(OSError):
                while True:
                    file.write(bytes(size_bytes))


class Clients:
    """A producer, a reader, and a group's consumer."""

    def __init__(self, muster: Muster) -> None:
        self.acknowledged = 0
        self._server: dict[str, str | int | float | bool] = {"bootstrap.servers": muster.bootstrap}
        self._producer = confluent_kafka.Producer({**self._server, "message.timeout.ms": REFUSED_S * 1000})
        self._group = confluent_kafka.Consumer({**self._server, "group.id": "g"})
        self._admin = AdminClient(self._server)

    def create(self, topic: str) -> None:
        self._admin.create_topics([NewTopic(topic, 1)])[topic].result(WAIT_S)

    def send(self) -> bool:
        """Whether a record was acknowledged."""
        errors: list[KafkaError | None] = []
        self._producer.produce(TOPIC, b"%d" % self.acknowledged, on_delivery=lambda error, _: errors.append(error))
        self._producer.flush(WAIT_S)
        [error] = errors
        self.acknowledged += error is None
        return error is None

    def read(self) -> list[int]:
        """All records, through a new consumer."""
        consumer = confluent_kafka.Consumer({**self._server, "group.id": "reader", "enable.partition.eof": True})
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        values: list[int] = []
        while (message := consumer.poll(WAIT_S)) is not None and message.error() is None:
            values.append(int(message.value() or b""))
        consumer.close()
        assert message is not None
        return values

    def commit(self, offset: int) -> None:
        self._group.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)

    @property
    def committed(self) -> int:
        return int(self._group.committed([TopicPartition(TOPIC, 0)], WAIT_S)[0].offset)

    def close(self) -> None:
        self._group.close()


def said(muster: Muster, pattern: str, times: int = 1) -> None:
    """Wait until ``muster up`` has written that so often."""
    log = muster.storage.parent / f"{muster.storage.name}.log"
    eventually(lambda: re.findall(pattern, log.read_text()), lambda found: len(found) == times, f"{pattern} is said")


def zookeeper_of(muster: Muster) -> psutil.Process:
    assert muster.process is not None
    family = psutil.Process(muster.process.pid).children(recursive=True)
    return next(process for process in family if any("ZooKeeperServerMain" in word for word in process.cmdline()))


@pytest.mark.timeout(300)
def test_reads_and_groups_go_on_and_all_is_well_again_when_there_is_room(disk: Path) -> None:
    with Muster(disk / "storage", ["--gateways", "1"]) as muster:
        clients = Clients(muster)
        clients.create(TOPIC)
        assert clients.send()
        clients.commit(1)

        fill(disk, "other")
        said(muster, "is full, .* new records are refused")
        assert not clients.send()
        clients.commit(2)
        clients.create("made-on-a-full-disk")
        assert (clients.read(), clients.committed) == ([0], 2)

        fill(disk, "another")
        zookeeper_of(muster).kill()
        said(muster, "ZooKeeper on .* did not start: .*No space left on device")
        assert not clients.send()
        assert (clients.read(), clients.committed) == ([0], 2)

        for name in ("other", "another"):
            (disk / name).unlink()
        said(muster, "has room again")
        said(muster, "ZooKeeper is back after")
        assert clients.send()
        clients.commit(3)
        clients.create("made-later")
        assert (clients.read(), clients.committed) == ([0, 1], 3)
        clients.close()
        muster.until_all_serve()

    fill(disk, "other")
    with muster:  # the reserve is enough to serve what there is
        said(muster, "is full, .* new records are refused", times=2)
        again = Clients(muster)
        assert (again.read(), again.committed) == ([0, 1], 3)
        again.close()
    fill(disk, "another")
    refused = subprocess.run(muster.command, capture_output=True, text=True, timeout=WAIT_S)
    assert refused.returncode == 1
    assert re.fullmatch(r"muster: storage path .* is full: \d+ KiB are free, .*; free space there.*\n", refused.stderr)
