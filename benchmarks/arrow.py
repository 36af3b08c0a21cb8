"""``python -m benchmarks arrow``: records per second of processor time, into Arrow, for a group and by other clients.

A topic of one partition is written once. Then, each in a process of its own, and in turn: the reader of ``muster.data``
alone, confluent-kafka, and, on the private Ray of that Muster, ``muster.data.read`` and Ray's ``read_kafka``, of which
the processor time of the tasks counts, as ``Dataset.stats()`` has it.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.cluster import Cluster, machine
from benchmarks.report import Figures, output, output_options
from muster.gateway.cli.storage.directory import read_state
from muster.gateway.client.cluster import Cluster as Kafka

_TOPIC, _GROUP = "records", "readers"
_VALUE_BYTES = 100
_MIN_PER_CPU_S = 1_500_000
_MAX_SHARE = 0.2
"""Largest processor time of ``muster.data.read``, by that of ``read_kafka``."""
_ROUNDS = 3
_WAYS = ("reader", "confluent", "read", "read_kafka")


@click.command()
@click.option("--records", default=500_000, show_default=True)
@click.option("--compression", default="none", show_default=True, help="compression.type of the producer.")
@click.option("--quick", is_flag=True, help="A tenth of the records: whether it works, not how fast it is.")
@output_options
def main(records: int, compression: str, quick: bool, json_file: Path | None, as_markdown: bool) -> None:
    """Measure reading into Arrow. Exit code 1 if a goal is missed."""
    about, figures = machine(), Figures()
    count = records // 10 if quick else records
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        properties = {"offsets.topic.num.partitions": "4", "metrics.samples.flush.ms": "5000"}
        with Cluster(Path(name), gateways=1, properties=properties) as cluster:
            _write(cluster.bootstrap[0], count, compression)
            found: dict[str, list[float]] = {way: [] for way in _WAYS}
            for _ in range(1 if quick else _ROUNDS):
                for way in _WAYS:
                    found[way].append(_measured(cluster, way, count))
    per_cpu_s = {way: count / statistics.median(times) for way, times in found.items()}
    share = statistics.median(found["read"]) / statistics.median(found["read_kafka"])
    of = f"{count:,} records of {_VALUE_BYTES} bytes, {compression}"
    for way, what in zip(
        _WAYS,
        (
            "the reader of muster.data alone",
            "confluent-kafka, values not looked at",
            "tasks of muster.data.read",
            "tasks of Ray's read_kafka",
        ),
        strict=True,
    ):
        figures.add(of, what, per_cpu_s[way], "records per CPU second")
    figures.add(of, "CPU time, by that of read_kafka", share, "", None if quick else _MAX_SHARE)
    output(figures, about, json_file, as_markdown)
    if not quick and compression == "none" and per_cpu_s["reader"] < _MIN_PER_CPU_S:
        click.echo(f"MISSED: {_MIN_PER_CPU_S:,} records per CPU second", err=True)
        sys.exit(1)
    if not figures.met:
        sys.exit(1)


def _write(bootstrap: str, count: int, compression: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(_TOPIC, 1)])[_TOPIC].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "compression.type": compression})
    for number in range(count):
        text = f"{number:06d}"
        while True:
            try:
                producer.produce(_TOPIC, (text * 17)[:_VALUE_BYTES], text[:6])
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise click.ClickException("the records could not be written")


def _measured(cluster: Cluster, way: str, count: int) -> float:
    """Return the seconds of processor time of a process that reads the topic."""
    state = read_state(cluster.storage)
    assert state is not None
    ray = {
        "RAY_ADDRESS": state.ray_address,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(state.ray_token_path),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    }
    command = [sys.executable, "-m", "benchmarks.arrow", way, cluster.bootstrap[0], str(count)]
    done = subprocess.run(command, env=os.environ | ray, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise click.ClickException(f"{way} failed:\n{done.stderr[-2000:]}")
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if measured["records"] != count:
        raise click.ClickException(f"{way} has read {measured['records']} of {count} records")
    return float(measured["cpu_s"])


def _reader(bootstrap: str, count: int) -> tuple[int, float]:
    from muster.gateway.client.data.fetching import read_range
    from muster.gateway.client.data.ranges import Range

    def read(end: int) -> int:
        return sum(batch.num_rows for batch in read_range(Kafka(bootstrap), _GROUP, Range(_TOPIC, 0, 0, end)))

    read(min(count, 1000))  # what is imported and compiled once
    return _timed(lambda: read(count))


def _confluent(bootstrap: str, count: int) -> tuple[int, float]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "confluent", "enable.auto.commit": False})
    consumer.assign([TopicPartition(_TOPIC, 0, 0)])

    def read() -> int:
        found = 0
        while found < count:
            found += len(consumer.consume(10_000, 10.0))
        return found

    try:
        return _timed(read)
    finally:
        consumer.close()


def _timed(read: Callable[[], int]) -> tuple[int, float]:
    began_s = time.process_time()
    return read(), time.process_time() - began_s


def _read(bootstrap: str, count: int) -> tuple[int, float]:
    import ray

    import muster.data

    ray.init(log_to_driver=False)

    def dataset() -> Any:
        return muster.data.read(_TOPIC, group=_GROUP, cluster=Kafka(bootstrap), start="earliest")

    return _by_ray(dataset)


def _read_kafka(bootstrap: str, count: int) -> tuple[int, float]:
    import ray

    ray.init(log_to_driver=False)
    return _by_ray(lambda: ray.data.read_kafka(_TOPIC, bootstrap_servers=bootstrap))


def _by_ray(dataset: Callable[[], Any]) -> tuple[int, float]:
    """Read twice, and take the second time: the workers are warm then."""
    for _ in range(2):
        read = dataset()
        found = sum(batch.num_rows for batch in read.iter_batches(batch_format="pyarrow", batch_size=None))
        stats = read.stats()
    return found, _cpu_s(stats)


def _cpu_s(stats: str) -> float:
    """Return the processor time of the tasks that read, in seconds, out of what ``Dataset.stats()`` says."""
    total = re.search(r"Remote cpu time: .*?([\d.]+)(us|ms|s) total", stats)
    if total is None:
        raise ValueError(f"no processor time in {stats}")
    return float(total[1]) * {"us": 1e-6, "ms": 1e-3, "s": 1.0}[total[2]]


if __name__ == "__main__":
    way, bootstrap, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    read = {"reader": _reader, "confluent": _confluent, "read": _read, "read_kafka": _read_kafka}[way]
    records, cpu_s = read(bootstrap, count)
    print(json.dumps({"records": records, "cpu_s": cpu_s}))
