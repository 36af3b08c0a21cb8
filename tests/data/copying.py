"""A driver's program that copies topics in batches, in which something happens at a step."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from muster.gateway.client.cluster import Cluster

STEPS = ("planned", "read", "prepared", "begun", "sent", "committed")
"""Where a driver may be: its plan is stored, its records are read, its output is prepared, the transaction has begun,
everything is sent, and committed."""


def copy(
    kafka: Cluster,
    source: str,
    target: str,
    group: str,
    files: str | None = None,
    step: str | None = None,
    victims: Sequence[int] = (),
    poison: str | None = None,
) -> list[int]:
    """Copy what is there, in batches of 500, to the topic and as Parquet; return the numbers of the batches.

    At ``step`` of the first one, SIGKILL is sent to ``victims``, or to the driver if there are none. The worker that
    finds the file ``poison`` removes it and kills itself.
    """
    from ray.data import SaveMode

    import muster.data

    def at(reached: str) -> None:
        if reached == step and not reached_before:
            reached_before.append(reached)
            for pid in victims or (os.getpid(),):
                kill(pid)

    reached_before: list[str] = []
    numbers = []
    with _Steps(at):
        for batch in muster.data.batches(
            source, group=group, cluster=kafka, max_records=500, every_s=0.1, until=lambda batch: not batch.ranges
        ):
            at("planned")
            dataset = batch.dataset
            if poison is not None:
                dataset = dataset.map_batches(_die_once, fn_kwargs={"poison": poison}, batch_format="pyarrow")
            if files is not None:
                values = dataset.select_columns(["value"])
                values.write_parquet(f"{files}/batch={batch.id}", mode=SaveMode.OVERWRITE)
            at("read")
            batch.write(dataset, target)
            at("prepared")
            numbers.append(batch.id)
    return numbers


class _Steps:
    """While it is entered, the steps of a transaction that has output are reported."""

    def __init__(self, at: Callable[[str], None]) -> None:
        self._at = at

    def __enter__(self) -> None:
        self._kind: Any = import_module("muster.gateway.client.kafka.transaction").TransactionalProducer
        self._before = (self._kind._add_partitions, self._kind._end)
        add_partitions, end = self._before
        at, has_output = self._at, []

        def adding(producer: Any, output: Any) -> None:
            add_partitions(producer, output)
            has_output.append(True)
            at("begun")

        def ending(producer: Any, *, is_committed: bool) -> None:
            if has_output:
                at("sent")
            end(producer, is_committed=is_committed)
            if has_output:
                at("committed")
            has_output.clear()

        self._kind._add_partitions, self._kind._end = adding, ending

    def __exit__(self, *_: object) -> None:
        self._kind._add_partitions, self._kind._end = self._before


def _die_once(table: Any, poison: str = "") -> Any:
    try:
        Path(poison).unlink()
    except FileNotFoundError:
        return table
    os.kill(os.getpid(), signal.SIGKILL)
    return table


def kill(pid: int) -> None:
    """Send SIGKILL; no effect if the process has ended."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
