"""Topics as Ray Datasets, read for a group and written exactly once.

* :func:`read`: what topics hold now, as a Dataset;
* :func:`batch`, :func:`batches`: what a group has not read, committed with its output in one transaction;
* :func:`write`: a Dataset into a topic, in one transaction.

They work on Muster and on Kafka. On Muster, every byte that is read counts as the group's. They need the extra
``data``: ``pip install 'muster-kafka[data]'``. Ray Data does not run over Ray Client: there, they raise
RayClientUnsupported. See docs/ray.md.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from muster.actors.log.format.arrow.schema import SCHEMA
from muster.gateway.client.cluster import Cluster
from muster.gateway.client.data.batches import Batch, Driver, each_batch
from muster.gateway.client.data.fetching import client_id
from muster.gateway.client.data.ranges import Range
from muster.gateway.client.data.ray_client import refuse_ray_client
from muster.gateway.client.data.snapshot import End, Start, names_of, snapshot
from muster.gateway.client.finding import connect

if TYPE_CHECKING:
    from ray.data import Dataset

__all__ = ["SCHEMA", "Batch", "Range", "batch", "batches", "read", "write"]

ROWS_PER_TASK = 250_000
MAX_RECORDS = 1_000_000
MAX_BYTES = 256 << 20


def read(
    topics: str | Iterable[str],
    *,
    group: str,
    cluster: Cluster | None = None,
    start: Start = "committed",
    end: End = "latest",
    columns: Sequence[str] | None = None,
    rows_per_task: int = ROWS_PER_TASK,
) -> Dataset:
    """Return what the topics hold now, from ``start`` to the last stable offset, fixed when this is called.

    Aborted records and transaction markers are left out; offsets that were compacted away, and markers at the end, do
    not hold it up. Nothing is committed. ``group`` is who reads: on Muster, the bytes count as that group's.

    ``start``: ``"committed"``, from what the group has committed, or from the first record where it has not;
    ``"earliest"``; a datetime with a time zone; or offsets by (topic, partition). ``end``: ``"latest"``, a datetime or
    offsets: before them. ``columns``: those of :data:`SCHEMA` that are wanted, in that order. ``rows_per_task``: the
    most offsets that one task reads.

    The Dataset is lazy, and the same whenever it is executed, as long as its records are retained. Its tasks raise
    OffsetOutOfRange if they are not, and CorruptRecords. Raises UnknownTopic, NotRunning, NoResponse or Refused, and
    ValueError for arguments.

    >>> muster.data.read("flights", group="report", columns=["value"]).count()  # doctest: +SKIP
    1000
    """
    from muster.gateway.client.data.datasource import dataset_of, schema_of

    refuse_ray_client()
    schema_of(columns)
    cluster = cluster or connect()
    ranges = snapshot(cluster, names_of(topics), group, client_id(group), start, end)
    return dataset_of(cluster, group, ranges, columns, rows_per_task)


def batch(
    topics: str | Iterable[str],
    *,
    group: str,
    cluster: Cluster | None = None,
    max_records: int = MAX_RECORDS,
    max_bytes: int = MAX_BYTES,
    wait_s: float = 0,
    rows_per_task: int = ROWS_PER_TASK,
) -> Batch:
    """Return the group's next batch, to be used in a ``with`` block.

    Leaving the block without an error commits the ends of the batch's ranges, with what :meth:`Batch.write` prepared,
    in one transaction. It fences older drivers of the group: their commits raise Fenced. A batch that was begun and
    not committed, by whatever driver, is returned again, with its number and its ranges.

    The batch has at most ``max_records`` offsets, of each partition as many as of the others if they have them, and
    its output at most ``max_bytes``, which the driver holds. It is empty if nothing came within ``wait_s``. Offsets of
    a group that is not used are forgotten after ``offsets.retention.minutes``, and with them the numbers of batches.

    Raises GroupHasMembers, UnknownTopic, NotRunning, NoResponse or Refused.

    >>> with muster.data.batch("flights", group="nightly") as b:  # doctest: +SKIP
    ...     b.dataset.write_parquet(f"/data/flights/batch={b.id}", mode=SaveMode.OVERWRITE)
    """
    driver = Driver(cluster or connect(), names_of(topics), group, max_records, max_bytes, rows_per_task)
    try:
        return driver.next(wait_s)
    except BaseException:
        driver.close()
        raise


def batches(
    topics: str | Iterable[str],
    *,
    group: str,
    cluster: Cluster | None = None,
    every_s: float = 5,
    until: Callable[[Batch], bool] | None = None,
    max_records: int = MAX_RECORDS,
    max_bytes: int = MAX_BYTES,
    rows_per_task: int = ROWS_PER_TASK,
) -> Iterator[Batch]:
    """Yield the group's batches, each committed when the next is asked for.

    They are ``every_s`` seconds apart, or follow at once after a full one; one is empty if nothing came. It ends at the
    first batch for which ``until`` is true, and does not yield it. After ``break`` or an error, the last batch is not
    committed, and is the next one's again; :meth:`Batch.commit` commits it before. See :func:`batch`.

    >>> for b in muster.data.batches("in", group="copy", until=lambda b: not b.ranges):  # doctest: +SKIP
    ...     b.write(b.dataset, "out")
    """
    driver = Driver(cluster or connect(), names_of(topics), group, max_records, max_bytes, rows_per_task)
    return each_batch(driver, every_s, until)


def write(
    dataset: Dataset,
    topic: str,
    *,
    key: str | None = "key",
    value: str = "value",
    headers: str | None = None,
    partition: str | None = None,
    cluster: Cluster | None = None,
    max_bytes: int = MAX_BYTES,
) -> int:
    """Write the rows to the topic in one transaction: all of them, or none. Returns the number of records.

    For columns, partitions and order see :meth:`Batch.write`. The driver holds the records, ``max_bytes`` at most.
    Raises OutputTooLarge, RecordTooLarge, UnknownTopic, NotRunning, NoResponse or Refused, and TypeError or ValueError
    for columns.

    >>> muster.data.write(ray.data.from_items([{"key": "a", "value": "1"}]), "flights")  # doctest: +SKIP
    1
    """
    from muster.gateway.client.data.datasink import Columns
    from muster.gateway.client.data.writing import add_to, prepare, target_of
    from muster.gateway.client.kafka.transaction import TransactionalProducer

    refuse_ray_client()
    cluster = cluster or connect()
    name = f"muster-data-write-{uuid.uuid4()}"
    target = target_of(cluster, topic, Columns(key, value, headers, partition), name)
    prepared = prepare(dataset, target, max_bytes)
    output: dict[tuple[str, int], list[bytearray]] = {}
    add_to(output, topic, prepared)
    with TransactionalProducer(cluster, name, name) as producer:
        producer.transact(output)
    return sum(each.records for each in prepared)
