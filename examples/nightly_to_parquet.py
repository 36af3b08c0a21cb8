"""A nightly job: what a topic has got since the last time, as Parquet files, each record exactly once.

usage: python -m examples.nightly_to_parquet

It starts a Muster and a Ray, which end with it. The job itself is ``export``: wherever it is killed, the next run goes
on with the same batch under the same number, and overwrites what that had written.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow.dataset as ds
import ray
from ray.data import SaveMode

import muster
import muster.data


def export(kafka: muster.Cluster, folder: Path) -> int:
    """Write what the group has not read yet; return the number of records."""
    records = 0
    for batch in muster.data.batches(
        "flights", group="nightly", cluster=kafka, every_s=0, until=lambda batch: not batch.ranges
    ):
        flights = batch.dataset.select_columns(["timestamp", "key", "value"]).materialize()
        flights.write_parquet(str(folder / f"batch={batch.id}"), mode=SaveMode.OVERWRITE)
        records += flights.count()
    return records


def main() -> None:
    with muster.run() as kafka, tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "flights"
        ray.init(log_to_driver=False)
        kafka.topic("flights", partitions=3)
        for night in (1, 2):
            flights = ray.data.from_items([{"key": f"UA{n}", "value": f"night {night}"} for n in range(500 * night)])
            muster.data.write(flights, "flights", cluster=kafka)
            print(f"night {night}: {export(kafka, folder)} flights exported")
        files = ds.dataset(folder, partitioning="hive")
        print(f"{files.count_rows()} flights in {len(files.files)} files; {kafka.lag('nightly').messages} are missing")


if __name__ == "__main__":
    main()
