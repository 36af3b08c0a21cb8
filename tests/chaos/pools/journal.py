"""Lines that processes of the plan ``pool`` write before anything that may kill them, and what is read out of them.

Times are of ``time.monotonic``, which all processes of a host share.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

Record = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True, slots=True)
class Death:
    """A SIGKILL."""

    at_s: float
    kind: str
    """``worker``, ``supervisor``, ``group coordinator`` or ``driver``."""
    pid: int
    step: str = ""
    """Where the process was; empty: anywhere."""
    client_id: str = ""
    """``client.id`` of a worker."""
    partitions: Sequence[int] = ()
    """Partitions that a worker had."""


@dataclass(slots=True)
class Batch:
    """One call of the handler."""

    pid: int
    entered_s: float
    records: frozenset[Record]
    handled_s: float | None = None
    """None: it has not returned."""
    committed_s: float | None = None
    """When its last offset was known to be committed; None: never."""


@dataclass(slots=True)
class History:
    """All that the processes wrote."""

    deaths: list[Death] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)


class Journals:
    """The files, in one directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, line: Mapping[str, Any]) -> None:
        """Append a line of this process; return once it is on the disk."""
        append(self._folder / f"{os.getpid()}.jsonl", line)

    def note_death(self, death: Death) -> None:
        """Append a kill that is about to happen."""
        append(self._folder / "deaths", asdict(death))

    def deaths(self) -> list[Death]:
        """Return the kills so far."""
        return [Death(**line) for line in lines(self._folder / "deaths")]

    def pids(self) -> list[int]:
        """Return the processes that have handled something."""
        return [int(file.stem) for file in sorted(self._folder.glob("*.jsonl"))]

    def history(self) -> History:
        """Return everything."""
        found = History(sorted(self.deaths(), key=lambda death: death.at_s))
        for pid in self.pids():
            found.batches += batches_of(pid, lines(self._folder / f"{pid}.jsonl"))
        return found


def batches_of(pid: int, written: Iterator[dict[str, Any]]) -> list[Batch]:
    """Return the batches of one process, out of its lines in their order."""
    found: list[Batch] = []
    open_ones: list[tuple[Batch, dict[int, int]]] = []
    for line in written:
        if "entered_s" in line:
            offsets = {int(partition): values for partition, values in line["offsets"].items()}
            records = frozenset((partition, offset) for partition, values in offsets.items() for offset in values)
            found.append(Batch(pid, line["entered_s"], records))
            open_ones.append((found[-1], {partition: max(values) + 1 for partition, values in offsets.items()}))
        elif "handled_s" in line:
            found[-1].handled_s = line["handled_s"]
        else:
            accepted = {int(partition): offset for partition, offset in line["offsets"].items()}
            for batch, ends in open_ones:
                for partition in [each for each, end in ends.items() if accepted.get(each, -1) >= end]:
                    del ends[partition]
                if not ends:
                    batch.committed_s = line["committed_s"]
            open_ones = [(batch, ends) for batch, ends in open_ones if ends]
    return found


def append(file: Path, line: Mapping[str, Any]) -> None:
    """Append a line with one write; return once it is on the disk."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, f"{json.dumps(line)}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lines(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of the file; none if there is no file."""
    if file.exists():
        for line in file.read_text().splitlines():
            yield json.loads(line)
