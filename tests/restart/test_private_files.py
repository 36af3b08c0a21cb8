"""Nothing below the storage directory is for other users of the machine, whatever the umask of who starts Muster."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import confluent_kafka
from confluent_kafka import TopicPartition

from tests.muster_process import Muster, eventually

TOPIC = "private"


def traffic(bootstrap: str) -> None:
    server: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap}
    producer = confluent_kafka.Producer({**server, "transactional.id": "t"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(TOPIC, b"x")
    producer.commit_transaction()
    consumer = confluent_kafka.Consumer({**server, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    eventually(lambda: consumer.poll(1), lambda message: message is not None and not message.error(), "it is read")
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
    consumer.close()


def open_to_others(storage: Path) -> list[str]:
    entries = [Path(folder, name) for folder, folders, files in os.walk(storage) for name in (*folders, *files)]
    return [f"{entry} {mode:o}" for entry in entries if (mode := stat.S_IMODE(entry.lstat().st_mode)) & 0o077]


def test_all_that_traffic_leaves_is_for_its_user_alone(tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    before = os.umask(0o022)
    try:
        (storage / "logs").mkdir(parents=True)  # as a mount point may be
        os.umask(0o000)
        properties = {"metrics.samples.flush.ms": "200"}
        with Muster(storage, ["--gateways", "1"], properties) as muster:
            traffic(muster.bootstrap)
            tables = storage / "metrics" / "samples"
            eventually(lambda: list(tables.rglob("*.parquet")), bool, "samples are written")
            while_running = open_to_others(storage)
        assert while_running == []
        assert open_to_others(storage) == []
    finally:
        os.umask(before)
    assert {".log", ".parquet"} <= {entry.suffix for entry in storage.rglob("*")}
