"""``python -m benchmarks pool``: how a pool that is sized by lag reads one burst, beside pools of a fixed size.

Each case has a topic and a group of its own, on one Muster and one Ray. A pool of a fixed size runs when the burst
comes; the one that is sized by lag has no worker then. Handling takes time, and no processor.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import click
from confluent_kafka import Producer

import muster.pool
from benchmarks.cluster import Cluster, machine
from benchmarks.report import Figures, output, output_options
from muster.gateway.client.cluster import Cluster as Kafka
from muster.gateway.client.kafka.groups import members_of
from muster.gateway.client.kafka.offsets import committed
from muster.gateway.client.pool.names import worker_slots

if TYPE_CHECKING:
    import pyarrow as pa

_PARTITIONS = 8
_RECORD_S = 0.01
"""Time to handle a record."""
_BATCH = 50
_TARGET_S, _START_S, _IDLE_S, _DOWN_S = 10.0, 6.0, 5.0, 10.0
_GOAL_S = 30.0
"""From the first member until the oldest unread record is younger than the target, at most."""
_FIXED = (1, 4, 8)
_BY_LAG = "sized by lag, from 0"
_LOOK_S, _ROW_S = 0.5, 5
_MAX_S = 600.0


@dataclass(frozen=True, slots=True)
class Look:
    """A pool and its group at one moment."""

    at_s: float
    """Since the burst began."""
    workers: int
    """Actors that Ray has, also those that it starts."""
    members: int
    """Members of the group that have partitions."""
    begun: int
    """Partitions of which the group has committed an offset, as it does before the first record."""
    unread: int
    oldest_s: float
    """Age of the oldest unread record; 0 if there is none."""


def handle(table: pa.Table) -> None:
    """Take the time that the records need."""
    time.sleep(_RECORD_S * table.num_rows)


@click.command()
@click.option("--records", default=12_000, show_default=True, help="Of the burst.")
@click.option("--quick", is_flag=True, help="A tenth of the records, and two cases: whether it works.")
@click.option("--by-lag", is_flag=True, help="No pool of a fixed size.")
@output_options
def main(records: int, quick: bool, by_lag: bool, json_file: Path | None, as_markdown: bool) -> None:
    """Measure the lag of a burst over time. Exit code 1 if the goal is missed."""
    from tests.ray_head import connected

    about, figures = machine(), Figures()
    count = records // 10 if quick else records
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        properties = {"offsets.topic.num.partitions": "4", "group.initial.rebalance.delay.ms": "0"}
        with Cluster(Path(name), gateways=1, properties=properties) as cluster, connected():
            kafka = Kafka(",".join(cluster.bootstrap))
            _add(figures, _BY_LAG, _measured(kafka, None, count), None if quick else _GOAL_S)
            for size in () if by_lag else _FIXED[-1:] if quick else _FIXED:
                _add(figures, f"{size} worker{'s' if size > 1 else ''}, running", _measured(kafka, size, count), None)
    output(figures, about, json_file, as_markdown)
    sys.exit(0 if figures.met else 1)


def _measured(kafka: Kafka, size: int | None, count: int) -> list[Look]:
    """Return looks from the burst until all is read, and, if the pool is sized by lag, until it has no worker."""
    name = "by-lag" if size is None else f"fixed-{size}"
    click.echo(f"bench: {name}", err=True)
    topic = kafka.topic(name, partitions=_PARTITIONS)
    bounds = (0, _PARTITIONS) if size is None else (size, size)
    sizing = muster.pool.Sizing(*bounds, _TARGET_S, _START_S, idle_s=_IDLE_S, down_s=_DOWN_S)
    options = {"num_cpus": 0.5}
    with muster.pool.start(
        handle, topic, group=name, max_records=_BATCH, ray_actor_options=options, cluster=kafka, sizing=sizing
    ) as pool:
        for look in _looks(kafka, pool, name, [[] for _ in range(_PARTITIONS)]):
            if size is None or (look.members == size and look.begun == _PARTITIONS):
                break
        written_s = _burst(kafka, topic, count)
        found: list[Look] = []
        for look in _looks(kafka, pool, name, written_s):
            found.append(look)
            if look.unread == 0 and (size is not None or look.workers == 0):
                return found
    raise AssertionError("unreachable")


def _burst(kafka: Kafka, topic: str, count: int) -> list[list[float]]:
    """Write the records; return when each was written, by partition."""
    producer = Producer(kafka.client())
    written_s: list[list[float]] = [[] for _ in range(_PARTITIONS)]
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=number % _PARTITIONS)
        written_s[number % _PARTITIONS].append(time.monotonic())
        producer.poll(0)
    if producer.flush(60):
        raise click.ClickException("the burst could not be written")
    return written_s


def _looks(kafka: Kafka, pool: muster.pool.Pool, group: str, written_s: Sequence[Sequence[float]]) -> Iterator[Look]:
    """Look twice per second. The group has no offset where nothing is read yet."""
    import ray

    begin_s = min((each[0] for each in written_s if each), default=time.monotonic())
    with kafka.coordinator(group, "bench") as coordinator:
        while (now_s := time.monotonic()) < begin_s + _MAX_S:
            offsets = committed(coordinator, group)
            read = {partition: each.offset for (_, partition), each in offsets.items()}
            unread = [times[read.get(partition, 0) :] for partition, times in enumerate(written_s)]
            members = sum(bool(each.partitions) for each in members_of(coordinator, group))
            workers = worker_slots(pool.plan.token, ray.util.list_named_actors(all_namespaces=True))
            oldest_s = max((now_s - times[0] for times in unread if times), default=0.0)
            yield Look(now_s - begin_s, len(workers), members, len(read), sum(map(len, unread)), oldest_s)
            time.sleep(max(now_s + _LOOK_S - time.monotonic(), 0))
    raise click.ClickException(f"the burst is not read after {_MAX_S:.0f} s, or the pool keeps its workers")


def _add(figures: Figures, part: str, looks: Sequence[Look], goal_s: float | None) -> None:
    read_s = next(look.at_s for look in looks if look.unread == 0)
    until_read = [look for look in looks if look.at_s <= read_s]
    figures.add(part, "from the burst until lag is 0", read_s, "s")
    if part == _BY_LAG:
        first_s = next(look.at_s for look in looks if look.members)
        late_s = max((look.at_s for look in looks if look.oldest_s >= _TARGET_S), default=first_s)
        figures.add(part, "from the burst until a worker is a member", first_s, "s")
        all_s = next((look.at_s for look in looks if look.members == _PARTITIONS), None)
        if all_s is not None:
            figures.add(part, f"from the burst until {_PARTITIONS} workers are members", all_s, "s")
        figures.add(
            part, "from the first member until the oldest is below the target", max(late_s - first_s, 0), "s", goal_s
        )
    figures.add(part, "oldest unread record, peak", max(look.oldest_s for look in looks), "s")
    figures.add(
        part,
        f"time with a record older than {_TARGET_S:g} s",
        _spent(looks, lambda look: look.oldest_s >= _TARGET_S),
        "s",
    )
    figures.add(part, "worker seconds until lag is 0", _spent(until_read, lambda look: look.workers), "s")
    if part == _BY_LAG:
        figures.add(part, "worker seconds until none runs", _spent(looks, lambda look: look.workers), "s")
    for at_s in range(_ROW_S, int(read_s) + _ROW_S, _ROW_S):
        look = next((each for each in looks if each.at_s >= at_s), looks[-1])
        state = f"{look.workers} workers, {look.members} members, {look.unread:,} unread"
        figures.add(part, f"oldest unread record after {at_s} s: {state}", look.oldest_s, "s")


def _spent(looks: Sequence[Look], amount: Callable[[Look], float]) -> float:
    """Return the sum over time of the amount, which holds from each look to the next one."""
    return sum((later.at_s - look.at_s) * amount(look) for look, later in pairwise(looks))
