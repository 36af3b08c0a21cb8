"""The consumption job: ``python -m spark.job --storage DIR`` prints who consumed how much.

Runs on the Ray cluster that serves that storage (found by ``DIR/run/cluster.json``), or with ``--local`` in this
process. ``--output FILE`` also writes the result as JSON (:class:`Consumption`).
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from spark.session import SparkUnavailable, local_session, raydp_session
from spark.signals import end_on_signals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FINE_SECONDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What was sent in one bucket of time; ``group`` None: not attributed."""

    start_s: int
    """Unix time of the bucket's start."""
    group: str | None
    topic: str
    partition: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartition:
    group: str
    topic: str
    partition: int
    messages: int
    bytes: int
    distinct: int
    resent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTotal:
    group: str
    messages: int
    bytes: int
    distinct: int
    """Messages that were sent to the group at least once."""
    resent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unattributed:
    reason: str | None
    topic: str
    client_id: str | None
    host: str
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """What the job found out."""

    per_minute: tuple[Sent, ...]
    fine_seconds: int
    fine: tuple[Sent, ...]
    """As per_minute, in buckets of ``fine_seconds``."""
    partitions: tuple[GroupPartition, ...]
    groups: tuple[GroupTotal, ...]
    unattributed: tuple[Unattributed, ...]

    @classmethod
    def empty(cls) -> Consumption:
        """Of a table without rows."""
        return cls(per_minute=(), fine_seconds=FINE_SECONDS, fine=(), partitions=(), groups=(), unattributed=())

    @classmethod
    def from_json(cls, text: str) -> Consumption:
        """What :meth:`to_json` wrote. TypeError or ValueError for anything else."""
        values: dict[str, Any] = json.loads(text)
        return cls(
            per_minute=tuple(Sent(**row) for row in values["per_minute"]),
            fine_seconds=values["fine_seconds"],
            fine=tuple(Sent(**row) for row in values["fine"]),
            partitions=tuple(GroupPartition(**row) for row in values["partitions"]),
            groups=tuple(GroupTotal(**row) for row in values["groups"]),
            unattributed=tuple(Unattributed(**row) for row in values["unattributed"]),
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def analyse(samples: DataFrame) -> Consumption:
    """Run the job on the table ``samples``."""
    from spark.jobs import consumption

    samples = samples.coalesce(samples.sparkSession.sparkContext.defaultParallelism).cache()
    try:
        by_partition = consumption.per_partition(samples).cache()
        return Consumption(
            per_minute=_sent(consumption.per_bucket(samples)),
            fine_seconds=FINE_SECONDS,
            fine=_sent(consumption.per_bucket(samples, seconds=FINE_SECONDS)),
            partitions=tuple(GroupPartition(**row.asDict()) for row in by_partition.collect()),
            groups=tuple(GroupTotal(**row.asDict()) for row in consumption.per_group(by_partition).collect()),
            unattributed=tuple(Unattributed(**row.asDict()) for row in consumption.unattributed(samples).collect()),
        )
    finally:
        samples.unpersist()


def _sent(buckets: DataFrame) -> tuple[Sent, ...]:
    rows = buckets.selectExpr(
        "unix_timestamp(bucket) AS start_s", "`group`", "topic", "partition", "messages", "bytes"
    ).collect()
    return tuple(Sent(**row.asDict()) for row in rows)


def table_of(consumption: Consumption) -> Table:
    """The job's result for the terminal: a line per minute, group, topic and partition, then totals per group."""
    table = Table(title="Messages and bytes out, per minute (UTC)", title_justify="left")
    for name in ("minute", "group", "topic", "partition"):
        table.add_column(name)
    for name in ("messages", "bytes"):
        table.add_column(name, justify="right")
    for row in consumption.per_minute:
        table.add_row(
            clock(row.start_s)[:5],
            row.group if row.group is not None else "(unattributed)",
            row.topic,
            str(row.partition),
            f"{row.messages:,}",
            f"{row.bytes:,}",
        )
    table.add_section()
    for total in consumption.groups:
        label = f"{total.distinct:,} distinct, {total.resent:,} sent again"
        table.add_row("all", total.group, label, "", f"{total.messages:,}", f"{total.bytes:,}")
    return table


def clock(second: int) -> str:
    """HH:MM:SS (UTC) of a Unix time."""
    return f"{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}"


def _session(storage: Path, local: bool) -> AbstractContextManager[SparkSession]:
    if local:
        return local_session()
    run_file = storage / "run" / "cluster.json"
    try:
        run = json.loads(run_file.read_text())
        address, token_path = run["ray_address"], run.get("ray_token_path")
    except (OSError, ValueError, KeyError) as error:
        raise SparkUnavailable(f"no running Muster on {storage}: {run_file}: {error!r}") from error
    return raydp_session(address, token_path=Path(token_path) if token_path else None)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m spark.job", description=__doc__)
    parser.add_argument("--storage", type=Path, required=True, help="storage.path of the cluster")
    parser.add_argument("--local", action="store_true", help="local Spark instead of RayDP")
    parser.add_argument("--output", type=Path, help="write the result as JSON, too")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that sessions are stopped
    try:
        with _session(options.storage, options.local) as session:
            from spark.tables import read_samples

            end_on_signals(session)
            result = analyse(read_samples(session, options.storage))
    except SparkUnavailable as error:
        print(f"spark.job: {error}", file=sys.stderr)
        return 1
    if options.output is not None:
        options.output.write_text(result.to_json())
    Console().print(table_of(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
