"""A transform from one topic to another, each record exactly once, for as long as there are some.

usage: python -m examples.topic_to_topic

It starts a Muster and a Ray, which end with it. The transform itself is ``enrich``: its output and the
group's offsets are one transaction, and a second driver that is started fences the first.
"""

from __future__ import annotations

import numpy as np
import ray

import muster
import muster.data


def double(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"key": batch["key"], "value": (2 * batch["value"].astype(np.int64)).astype("S")}


def as_records(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"key": batch["id"].astype("S"), "value": batch["id"].astype("S")}


def enrich(kafka: muster.Cluster) -> None:
    """Copy what the group has not read yet, doubled."""
    for batch in muster.data.batches(
        "in", group="doubling", cluster=kafka, every_s=1, until=lambda batch: not batch.ranges
    ):
        count = batch.write(batch.dataset.map_batches(double), "out")
        print(f"batch {batch.id}: {count} records")


def main() -> None:
    with muster.run() as kafka:
        ray.init(log_to_driver=False)
        kafka.topic("in", partitions=4)
        kafka.topic("out", partitions=2)
        numbers = ray.data.range(10_000).map_batches(as_records)
        muster.data.write(numbers, "in", cluster=kafka)
        enrich(kafka)
        doubled = muster.data.read("out", group="check", cluster=kafka, columns=["value"])
        print(f"{doubled.count()} records, {doubled.map(lambda row: {'value': int(row['value'])}).sum('value')} in all")


if __name__ == "__main__":
    main()
