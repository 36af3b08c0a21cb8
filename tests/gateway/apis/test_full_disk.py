"""A full disk under one partition: it is refused, the others continue, and nothing acknowledged is lost."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from muster.actors.log.files.disk import Disk
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.view import Broker, Topic
from tests.gateway.apis.test_data_apis import fetch, produce
from tests.gateway.serving import Serving
from tests.log.support import client_batch
from tests.zookeeper_fixture import eventually

Fresh = Callable[[str], str]
SIZE_BYTES = 1 << 20
RECORDS = 60


class SmallDisk:
    """A file system of 1 MiB, mounted at the directory; without permission to mount, an equally strict quota."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self._filler = directory / "filler"
        mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs", str(directory)]
        can_mount = shutil.which("mount") is not None and shutil.which("umount") is not None
        self.is_mounted = can_mount and subprocess.run(mount, capture_output=True).returncode == 0
        if not self.is_mounted:
            self._limit(monkeypatch)

    def fill(self) -> None:
        with suppress(OSError), self._filler.open("wb", buffering=0) as file:
            for size_bytes in (4096, 1):
                with suppress(OSError):
                    while self.is_mounted or self._used_bytes() < SIZE_BYTES:
                        file.write(bytes(size_bytes))

    def free(self) -> None:
        self._filler.unlink()

    def unmount(self) -> None:
        if self.is_mounted:
            subprocess.run(["umount", "--lazy", str(self._directory)], check=True)

    def _limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write = Disk.write

        def limited(disk: Disk, fd: int, content: bytes, position: int) -> None:
            here = Path(f"/proc/self/fd/{fd}").readlink().parent == self._directory
            if here and self._used_bytes() + len(content) > SIZE_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            write(disk, fd, content, position)

        monkeypatch.setattr(Disk, "write", limited)

    def _used_bytes(self) -> int:
        return sum(entry.stat().st_size for entry in self._directory.iterdir())


@pytest.fixture
def small_disk(full: Serving, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], SmallDisk]]:
    """Put the directory of a partition on a small disk of its own, before it is opened."""
    made: list[SmallDisk] = []

    def make(partition: str) -> SmallDisk:
        assert full.actors is not None
        made.append(SmallDisk(full.actors.storage / "logs" / partition, monkeypatch))
        return made[-1]

    yield make
    for disk in made:
        disk.unmount()


def reachable(full: Serving) -> str:
    """Have Metadata name the address at which real clients reach this gateway; returns the bootstrap address."""
    broker = Broker(id=1, host="127.0.0.1", port=full.port, node_id="n1")
    full.follow(replace(full.controller.view(), brokers=(broker,)))
    return f"127.0.0.1:{full.port}"


def read_all(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        return [message.value() or b"" for message in consumer.consume(count, timeout=60) if not message.error()]
    finally:
        consumer.close()


def error_of(full: Serving, topic: Topic, batch: bytes) -> ErrorCode:
    [result] = produce(full.client, (topic, 0, batch))
    return ErrorCode(result.error_code)


def test_a_real_producer_gets_over_a_full_disk(
    full: Serving, fresh: Fresh, small_disk: Callable[[str], SmallDisk], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "muster.actors.log")
    name = fresh("full")
    disk = small_disk(f"{name}-0")
    topic, other = full.create(name), full.create(fresh("other"))
    bootstrap = reachable(full)
    acknowledged: list[bytes] = []
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: object) -> None:
        failures.append(error) if error else acknowledged.append(message.value())  # type: ignore[attr-defined]

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1})
    values = [b"%04d" % number * 100 for number in range(RECORDS)]
    for value in values[: RECORDS // 3]:
        producer.produce(name, value, callback=delivered)
    assert producer.flush(60) == 0
    disk.fill()
    for value in values[RECORDS // 3 :]:
        producer.produce(name, value, callback=delivered)
    large = client_batch(1, value=bytes(9000))
    eventually(lambda: error_of(full, topic, large) is ErrorCode.kafka_storage_error, "it is full")
    assert error_of(full, other, large) is ErrorCode.none
    [readable] = fetch(full.client, (topic, 0, 0))
    assert (readable.error_code, readable.high_watermark >= RECORDS // 3) == (ErrorCode.none, True)
    disk.free()
    assert producer.flush(60) == 0
    assert (failures, sorted(acknowledged)) == ([], values)
    assert [value for value in read_all(bootstrap, name, RECORDS) if len(value) == 400] == values
    lines = [
        record.message
        for record in caplog.records
        if record.name == "muster.actors.log.trouble" and name in record.message
    ]
    assert [("No space left" in line, "all is well again" in line) for line in lines] == [(True, False), (False, True)]


def test_a_partition_that_cannot_be_opened_opens_when_there_is_room(
    full: Serving, fresh: Fresh, small_disk: Callable[[str], SmallDisk], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "muster.actors.log")
    name = fresh("closed")
    disk = small_disk(f"{name}-0")
    disk.fill()
    topic = full.create(name)
    for _ in range(5):
        assert error_of(full, topic, client_batch(1)) is ErrorCode.kafka_storage_error
    disk.free()
    eventually(lambda: error_of(full, topic, client_batch(1)) is ErrorCode.none, "it opens")
    lines = [
        record.message
        for record in caplog.records
        if record.name == "muster.actors.log.trouble" and name in record.message
    ]
    assert ["cannot be opened" in line for line in lines] == [True, True]
    assert "all is well again" in lines[1]
