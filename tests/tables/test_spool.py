"""Every sample that the store took reaches the table, once, after a kill at any time."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from muster.actors.tables import spool
from muster.actors.tables.folder import SpoolFolder
from muster.actors.tables.rollup import extension
from muster.actors.tables.schemas.samples import SAMPLES_SCHEMA
from muster.actors.tables.spool import Run, Sample, SampleStore
from tests.tables.killing import Killed, die, kill_at

HOUR_MS = 3_600_000
NOON_MS = 1_700_049_600_000  # 2023-11-15T12:00:00Z

BASE = Sample(
    ts_ms=NOON_MS,
    group="billing",
    member_id="m-1",
    client_id="rdkafka",
    host="127.0.0.1",
    topic="flights",
    partition=0,
    evidence="assignment",
    reason=None,
    messages=10,
    bytes=1000,
    first_offset=0,
    last_offset=9,
)


def fetched(first: int, last: int, **changes: Any) -> Sample:
    return replace(BASE, first_offset=first, last_offset=last, messages=last - first + 1, **changes)


def pending(first: int, last: int) -> Sample:
    return fetched(first, last, group=None, member_id=None, evidence="none", reason="pending")


def open_store(directory: Path, gateway: int = 1) -> SampleStore:
    return SampleStore(directory, gateway, flush_ms=5000, now_ms=lambda: NOON_MS)


def rows(directory: Path) -> list[dict[str, Any]]:
    if not (directory / "samples").exists():
        return []
    table = ds.dataset(directory / "samples", schema=SAMPLES_SCHEMA.arrow, format="parquet").to_table()
    return sorted(table.to_pylist(), key=lambda row: (row["ts"], row["first_offset"]))


def runs(directory: Path) -> list[tuple[int, int, int, int]]:
    return [(r["first_offset"], r["last_offset"], r["messages"], r["fetches"]) for r in rows(directory)]


def offsets(directory: Path) -> list[int]:
    return sorted(o for r in rows(directory) for o in range(r["first_offset"], r["last_offset"] + 1))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    store = open_store(tmp_path)
    yield store
    store.close()


def test_contiguous_fetches_are_one_row_and_a_refetch_begins_another(store: SampleStore, tmp_path: Path) -> None:
    for first, last in ((0, 9), (10, 29), (20, 29), (30, 34)):
        store.add(fetched(first, last))
    assert store.flush() == 2
    assert runs(tmp_path) == [(0, 29, 30, 2), (20, 34, 15, 2)]


def begun(store: SampleStore, sample: Sample) -> Run:
    run = store.add(sample)
    assert run is not None
    return run


def test_on_a_full_disk_runs_go_on_and_none_begins_so_that_a_kill_costs_only_what_was_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    run = begun(store, fetched(0, 9))
    with monkeypatch.context() as patch:
        patch.setattr(
            "muster.actors.tables.folder.os.write", lambda fd, data: _raise(OSError(28, "No space left on device"))
        )
        assert run.extend(NOON_MS, 10, 1000, 10, 19)
        assert store.add(fetched(0, 9, partition=1)) is None
    assert begun(store, fetched(20, 29)) is run
    begun(store, fetched(10, 19, partition=1))
    die(store)
    open_store(tmp_path).close()
    assert runs(tmp_path) == [(0, 29, 30, 3), (10, 19, 10, 1)]


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_run_that_is_extended_is_as_if_each_sample_had_been_added(tmp_path: Path, is_killed: bool) -> None:
    """Interleaved with other samples, and read from the spool or not: the same rows."""
    plain, extended = open_store(tmp_path / "plain"), open_store(tmp_path / "extended")
    later = (fetched(10 * n, 10 * n + 9, ts_ms=NOON_MS + n, control_records=1, aborted_records=n) for n in (1, 2, 3))
    samples = [fetched(0, 9, control_records=2), *later]
    for sample in samples:
        plain.add(sample)
        plain.add(replace(sample, partition=1))
    first, other = begun(extended, samples[0]), begun(extended, replace(samples[0], partition=1))
    for sample in samples[1:]:
        for run in (first, other):
            assert run.extend(*extension(sample))
    for name, store in (("plain", plain), ("extended", extended)):
        if is_killed:
            die(store)
            store = open_store(tmp_path / name)
        store.close()
    assert rows(tmp_path / "extended") == rows(tmp_path / "plain")
    skipped = [(row["control_records"], row["aborted_records"]) for row in rows(tmp_path / "plain")]
    assert skipped == [(5, 6)] * 2
    assert runs(tmp_path / "extended") == [(0, 39, 40, 4)] * 2


def test_what_does_not_go_on_with_a_run_does_not_extend_it(store: SampleStore, tmp_path: Path) -> None:
    run = begun(store, fetched(0, 9))
    assert not run.extend(NOON_MS, 10, 1000, 11, 20)  # an offset is missing
    assert not run.extend(NOON_MS + HOUR_MS, 10, 1000, 10, 19)  # another folder
    store.flush()
    assert not run.extend(NOON_MS, 10, 1000, 10, 19)  # its row is written
    assert runs(tmp_path) == [(0, 9, 10, 1)]


def test_a_row_says_everything_with_units(store: SampleStore, tmp_path: Path) -> None:
    store.add(fetched(0, 9, aborted_records=4))
    store.add(fetched(10, 19, ts_ms=NOON_MS + 250, control_records=1, aborted_records=2))
    store.flush()
    (row,) = rows(tmp_path)
    assert row.pop("ts").isoformat() == "2023-11-15T12:00:00+00:00"
    assert row.pop("last_ts").isoformat(timespec="milliseconds") == "2023-11-15T12:00:00.250+00:00"
    assert row == {
        "gateway": 1,
        "group": "billing",
        "member_id": "m-1",
        "client_id": "rdkafka",
        "host": "127.0.0.1",
        "topic": "flights",
        "partition": 0,
        "evidence": "assignment",
        "reason": None,
        "messages": 20,
        "bytes": 2000,
        "fetches": 2,
        "first_offset": 0,
        "last_offset": 19,
        "control_records": 1,
        "aborted_records": 6,
    }
    assert SAMPLES_SCHEMA.arrow.field("bytes").metadata[b"unit"] == b"bytes"


@pytest.mark.parametrize(
    "change", [{"group": "archive"}, {"member_id": "m-2"}, {"client_id": None}, {"host": "::1"}, {"partition": 1}]
)
def test_different_consumers_and_partitions_are_different_rows(
    store: SampleStore, tmp_path: Path, change: dict[str, Any]
) -> None:
    store.add(fetched(0, 9))
    store.add(fetched(10, 19, **change))
    store.flush()
    assert len(rows(tmp_path)) == 2


def test_a_row_goes_to_the_folder_of_its_hour(store: SampleStore, tmp_path: Path) -> None:
    store.add(fetched(0, 9, ts_ms=NOON_MS + HOUR_MS - 1))
    store.add(fetched(10, 19, ts_ms=NOON_MS + HOUR_MS))
    store.flush()
    folders = {path.parent.relative_to(tmp_path / "samples").as_posix() for path in tmp_path.rglob("*.parquet")}
    assert folders == {"date=2023-11-15/hour=12", "date=2023-11-15/hour=13"}


def test_a_flush_of_nothing_writes_nothing(store: SampleStore, tmp_path: Path) -> None:
    assert store.flush() == 0
    assert not (tmp_path / "samples").exists()


def test_a_pending_sample_waits_for_its_group(store: SampleStore, tmp_path: Path) -> None:
    handle = store.add_pending(pending(0, 9))
    store.add(fetched(10, 19))
    store.flush()
    assert offsets(tmp_path) == list(range(10, 20))
    store.settle(handle, group="billing", member_id="m-1", evidence="assignment", reason=None)
    store.flush()
    assert [(r["group"], r["reason"], r["first_offset"]) for r in rows(tmp_path)] == [
        ("billing", None, 0),
        ("billing", None, 10),
    ]
    with pytest.raises(KeyError):
        store.settle(handle, group="billing", member_id="m-1", evidence="assignment", reason=None)


def test_close_counts_what_is_pending_and_leaves_no_spool(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.add_pending(pending(0, 9))
    store.close()
    store.close()
    assert [(r["group"], r["reason"], r["messages"]) for r in rows(tmp_path)] == [(None, "pending", 10)]
    assert not list((tmp_path / "spool").iterdir())
    with pytest.raises(ValueError, match="closed"):
        store.add(BASE)


def test_a_successor_recovers_settled_and_pending_once(tmp_path: Path) -> None:
    first = open_store(tmp_path)
    first.add(fetched(0, 9))
    settled, _forgotten = first.add_pending(pending(10, 19)), first.add_pending(pending(20, 29))
    first.flush()
    first.settle(settled, group="billing", member_id="m-1", evidence="assignment", reason=None)
    first.flush()
    first.add(fetched(30, 39))
    die(first)

    open_store(tmp_path).close()
    assert [(r["first_offset"], r["group"], r["reason"]) for r in rows(tmp_path)] == [
        (0, "billing", None),
        (10, "billing", None),
        (20, None, "pending"),
        (30, "billing", None),
    ]
    assert not list((tmp_path / "spool").iterdir())


def test_a_torn_last_line_is_dropped(tmp_path: Path) -> None:
    first = open_store(tmp_path)
    first.add(fetched(0, 9))
    first.add(fetched(10, 19, partition=1))
    spool = next(tmp_path.rglob("*.jsonl"))
    spool.write_bytes(spool.read_bytes()[:-7])
    die(first)
    open_store(tmp_path).close()
    assert offsets(tmp_path) == list(range(10))


def test_a_living_copy_and_another_gateway_keep_their_spools(tmp_path: Path) -> None:
    living, other = open_store(tmp_path), open_store(tmp_path, gateway=11)
    living.add(fetched(0, 9))
    other.add(fetched(0, 9))
    successor = open_store(tmp_path)
    assert successor.flush() == 0
    living.add(fetched(10, 19))
    die(living)
    successor.flush()
    assert runs(tmp_path) == [(0, 19, 20, 2)]
    successor.close()
    other.close()


def test_a_full_disk_delays_but_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(
            "muster.actors.tables.folder.os.write", lambda fd, data: _raise(OSError(28, "No space left on device"))
        )
        store.add(fetched(0, 9))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", lambda self, target: _raise(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space"):
            store.flush()
    store.add(fetched(10, 19))
    store.close()
    assert offsets(tmp_path) == list(range(20))


def test_a_full_disk_is_logged_once_however_many_files_are_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(tmp_path)
    for trouble in (1, 2):
        with monkeypatch.context() as patch:
            patch.setattr(
                "muster.actors.tables.folder.os.write", lambda fd, data: _raise(OSError(28, "No space left on device"))
            )
            for window in range(3):
                store.add(fetched(window * 10, window * 10 + 9))
                store.flush()
        store.add(fetched(100 * trouble, 100 * trouble + 9))
        assert len([each for each in caplog.messages if "cannot append" in each]) == trouble
    store.close()


def _raise(error: BaseException) -> None:
    raise error


def _history(directory: Path) -> None:
    store = open_store(directory)
    handle = store.add_pending(pending(0, 9))
    store.add_pending(pending(10, 19))
    store.add(fetched(20, 29))
    store.flush()
    store.add(fetched(30, 39, ts_ms=NOON_MS + HOUR_MS))
    store.settle(handle, group="billing", member_id="m-1", evidence="assignment", reason=None)
    store.flush()
    store.add(fetched(40, 49))
    store.close()


def test_what_a_full_disk_leaves_in_memory_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(spool, "MAX_ROWS_HELD", 3)
    observed: list[int] = []
    store = SampleStore(
        tmp_path, 1, flush_ms=5000, now_ms=lambda: NOON_MS, observe=lambda rows: observed.extend(1 for _ in rows)
    )

    with monkeypatch.context() as patch:
        patch.setattr(spool, "write_samples", lambda *_: _raise(OSError(28, "No space left on device")))
        for window in range(3):
            for partition in range(2):
                store.add(fetched(window * 100, window * 100 + 9, partition=partition))
            with pytest.raises(OSError, match="No space"):
                store.flush()
    store.add(fetched(900, 909))
    assert store.flush() == 3
    store.close()
    assert [each["first_offset"] for each in rows(tmp_path)] == [0, 0, 900]
    assert len([each for each in caplog.messages if "2 rows of samples are lost" in each]) == 2
    assert len(observed) == 7, "the audit knows what was sent"
    assert not [path for path in (tmp_path / "spool").rglob("*") if path.is_file()]


def test_killed_between_any_two_steps_of_flush_and_of_recovery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step of the history, then every step of the recovery from it. Sums are compared with what was added."""
    remember = SampleStore.add
    added: list[int] = []

    def add(self: SampleStore, sample: Sample) -> None:
        remember(self, sample)
        added.extend(range(sample.first_offset, sample.last_offset + 1))

    folders: list[SpoolFolder] = []
    create = SpoolFolder.create
    monkeypatch.setattr(SampleStore, "add", add)

    def created(*arguments: Any) -> SpoolFolder:
        folders.append(folder := create(*arguments))
        return folder

    monkeypatch.setattr(SpoolFolder, "create", created)
    finished = 0
    for first_kill in range(100):
        for second_kill in range(100):
            directory = tmp_path / f"{first_kill}-{second_kill}"
            directory.mkdir()
            added.clear()
            first_done = _killed(monkeypatch, first_kill, folders, lambda d=directory: _history(d))
            second_done = _killed(monkeypatch, second_kill, folders, lambda d=directory: open_store(d).close())
            open_store(directory).close()
            found = offsets(directory)
            assert len(found) == len(set(found)), "counted twice"
            assert set(added) <= set(found), "lost"
            assert second_done is False or not list((directory / "spool").glob("gateway-*"))
            if second_done:
                break
        else:
            pytest.fail("recovery never ended")
        finished += 1
        if first_done:
            break
    assert finished > 10


def _killed(monkeypatch: pytest.MonkeyPatch, step: int, folders: list[SpoolFolder], work: Callable[[], None]) -> bool:
    """Whether the work was done before it was killed. A killed process loses its locks."""
    folders.clear()
    with monkeypatch.context() as patch:
        kill_at(patch, step)
        try:
            work()
        except Killed:
            for folder in folders:
                folder.release()
            return False
    return True


@pytest.mark.parametrize("seed", range(5))
def test_a_writer_killed_at_a_random_moment(tmp_path: Path, seed: int) -> None:
    """SIGKILL, twice in a row so that the second kill may hit the recovery; then a clean successor."""
    chance = random.Random(seed)
    taken: set[int] = set()
    for first in (0, 1_000_000):
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("writer.py")), str(tmp_path), str(first)],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        with process.stdout as pipe:
            for _ in range(chance.randrange(1, 4000)):
                taken.add(int(pipe.readline()))
            process.kill()
            taken.update(int(line) for line in pipe.read().split(b"\n")[:-1])
        process.wait()
    open_store(tmp_path).close()
    found = offsets(tmp_path)
    assert len(found) == len(set(found)), "counted twice"
    assert taken <= set(found), "lost"
    assert len(set(found) - taken) <= 2, "more than the one sample per kill that the process could not report"
