"""Compaction and retention: exactly the same rows, for every reader at every moment and after every kill."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muster.actors.tables import compaction
from muster.actors.tables.compaction import Outcome, Policy, compact
from muster.actors.tables.hours import listing
from muster.actors.tables.reading import files, read
from muster.actors.tables.schemas.cluster import LIFECYCLE
from muster.actors.tables.schemas.rebalances import REBALANCES
from muster.actors.tables.upkeep import TablesUpkeep
from tests.tables.events import HOUR_MS, NOON_MS, event
from tests.tables.events import open_store as open_events
from tests.tables.killing import die
from tests.tables.making import of_version, put, with_column, without
from tests.tables.rebalances import aborted, entry
from tests.tables.test_rebalances import keep
from tests.tables.test_rebalances import open_store as open_rebalances

ROOT = Path(__file__).parents[2]
DAY_MS = 24 * HOUR_MS
GRACE_MS = 900_000
POLICY = Policy(delay_ms=DAY_MS, grace_ms=GRACE_MS, retention_ms=30 * DAY_MS)
DUE_MS = NOON_MS + HOUR_MS + DAY_MS


def run(storage: Path, at_ms: int, policy: Policy = POLICY) -> Outcome:
    outcome = compact(storage / "metrics", policy, lambda: at_ms)
    assert outcome is not None
    return outcome


def epochs(storage: Path) -> list[int]:
    return sorted(read(storage, LIFECYCLE, columns=["epoch"]).column("epoch").to_pylist())


def parquets(storage: Path) -> list[str]:
    return sorted(path.name.split("-")[0] for path in storage.rglob("*.parquet"))


def test_an_hour_becomes_one_file_once_it_is_old_enough(tmp_path: Path) -> None:
    for number in range(20):
        put(tmp_path, f"controller-{number}", [number, 100 + number], reason="r" if number % 2 else None)
        put(tmp_path, f"reconciler-{number}", [200 + number], ts_ms=NOON_MS + HOUR_MS)
    before = read(tmp_path, LIFECYCLE).sort_by("epoch")
    assert run(tmp_path, DUE_MS - 1) == Outcome()
    assert run(tmp_path, DUE_MS) == Outcome(merged=20, into=1)
    assert read(tmp_path, LIFECYCLE).sort_by("epoch").equals(before)
    assert len(files(tmp_path, LIFECYCLE)) == 21
    assert parquets(tmp_path) == ["controller"] * 20 + ["merged"] + ["reconciler"] * 20
    assert run(tmp_path, DUE_MS + GRACE_MS - 1) == Outcome()
    assert run(tmp_path, DUE_MS + GRACE_MS).removed == 20
    assert run(tmp_path, DUE_MS + HOUR_MS).into == 1
    run(tmp_path, DUE_MS + 2 * HOUR_MS)
    assert parquets(tmp_path) == ["merged", "merged"]
    assert read(tmp_path, LIFECYCLE).sort_by("epoch").equals(before)


def test_rows_that_come_late_are_merged_too_and_a_file_that_comes_again_is_not(tmp_path: Path) -> None:
    """A writer that died between writing its file and removing its spool writes it again, whenever it restarts."""
    put(tmp_path, "controller-1", [1])
    put(tmp_path, "controller-2", [2])
    run(tmp_path, DUE_MS)
    put(tmp_path, "controller-3", [3])
    assert run(tmp_path, DUE_MS + GRACE_MS) == Outcome(merged=2, into=1, removed=2)
    run(tmp_path, DUE_MS + 2 * GRACE_MS)
    assert parquets(tmp_path) == ["merged"]
    for again in (1, 3):
        put(tmp_path, f"controller-{again}", [again])
    assert epochs(tmp_path) == [1, 2, 3]
    run(tmp_path, DUE_MS + 3 * GRACE_MS)
    assert parquets(tmp_path) == ["merged"]
    assert epochs(tmp_path) == [1, 2, 3]
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 3, "with a manifest and the lock"


def test_an_hour_that_is_one_file_costs_a_look_at_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a month there are thousands of them, and a round every five minutes."""
    for number in range(3):
        put(tmp_path, f"controller-{number}", [number])
    run(tmp_path, DUE_MS)
    run(tmp_path, DUE_MS + GRACE_MS)

    def touched(path: Path, *_: object, **__: object) -> None:
        raise AssertionError(path)

    with monkeypatch.context() as patch:
        for name in ("unlink", "glob", "read_bytes"):
            patch.setattr(Path, name, touched)
        assert run(tmp_path, DUE_MS + 2 * GRACE_MS) == Outcome()
    assert epochs(tmp_path) == [0, 1, 2]


def test_leftovers_of_killed_runs_are_removed(tmp_path: Path) -> None:
    folder = put(tmp_path, "controller-1", [1]).parent
    leftovers = (
        "._superseded-1.json.partial",
        "._expired.json.partial",
        ".merged-1.parquet.partial",
        "_superseded-2.json",
    )
    for name in leftovers:
        (folder / name).write_bytes(b"{")
    writing = folder / ".controller-2.parquet.partial"
    writing.write_bytes(b"PAR1")
    assert run(tmp_path, DUE_MS) == Outcome(removed=len(leftovers))
    assert sorted(path.name for path in folder.iterdir()) == [writing.name, "controller-1.parquet"]


def test_nested_columns_survive(tmp_path: Path) -> None:
    for number in range(4):
        store = open_rebalances(tmp_path / "metrics", number)
        of = {"offsets_partition": number}
        keep(store, entry(number, **of), aborted(10 + number, **of))
        store.close()
    before = read(tmp_path, REBALANCES).sort_by("number").to_pylist()
    assert run(tmp_path, DUE_MS).merged == 4
    assert read(tmp_path, REBALANCES).sort_by("number").to_pylist() == before
    run(tmp_path, DUE_MS + GRACE_MS)
    recent = open_rebalances(tmp_path / "metrics", 3).recent("billing", 100)
    assert recent == [aborted(13, offsets_partition=3), entry(3, offsets_partition=3)], "of its partition only"


def test_files_of_other_versions_and_what_is_damaged(tmp_path: Path) -> None:
    """An older file is merged; one with unknown parts is left unchanged, and so is an unreadable one."""
    put(tmp_path, "controller-1", [1], schema=without("reason"))
    put(tmp_path, "controller-2", [2], reason="r")
    put(tmp_path, "controller-3", [3], schema=with_column(pa.field("colour", pa.string())), colour="red")
    newer = put(tmp_path, "controller-4", [4], schema=of_version(2))
    torn = put(tmp_path, "controller-5", [5])
    torn.write_bytes(torn.read_bytes()[:-5])
    outcome = run(tmp_path, DUE_MS)
    assert (outcome.merged, outcome.into) == (2, 1)
    assert [problem.split(":")[0] for problem in outcome.problems] == [str(newer), str(torn)]
    run(tmp_path, DUE_MS + GRACE_MS)
    assert parquets(tmp_path) == ["controller", "controller", "controller", "merged"]
    for path in (newer, torn):
        path.unlink()
    found = read(tmp_path, LIFECYCLE).sort_by("epoch")
    assert found.column("reason").to_pylist() == [None, "r", None]


def test_a_page_that_was_damaged_on_the_disk_is_not_merged(tmp_path: Path) -> None:
    first, second = put(tmp_path, "controller-1", range(100)), put(tmp_path, "controller-2", [1])
    third = put(tmp_path, "controller-3", [2])
    data = bytearray(first.read_bytes())
    data[data.index(b"\x28\xb5\x2f\xfd") + 12] ^= 1  # after zstd's magic number
    first.write_bytes(data)
    for _ in range(2):
        (problem,) = run(tmp_path, DUE_MS).problems
        assert problem.startswith(f"{first}: cannot be read")
    assert listing(first.parent).superseded == (second.name, third.name)
    assert not list(first.parent.glob(".merged-*"))


def test_large_files_are_left_and_merges_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = put(tmp_path, "controller-0", [0]).stat().st_size
    put(tmp_path, "controller-large", range(10_000))
    for number in range(1, 6):
        put(tmp_path, f"controller-{number}", [number])
    monkeypatch.setattr(compaction, "SMALL_BYTES", 2 * size)
    monkeypatch.setattr(compaction, "MAX_BYTES", 3 * size)
    before = epochs(tmp_path)
    assert run(tmp_path, DUE_MS) == Outcome(merged=6, into=2)
    assert epochs(tmp_path) == before


def test_hours_past_retention_first_do_not_count_then_go(tmp_path: Path) -> None:
    put(tmp_path, "controller-1", [1])
    put(tmp_path, "controller-2", [2], ts_ms=NOON_MS + DAY_MS)
    hidden = put(tmp_path, ".controller-3", [3])
    expiry_ms = NOON_MS + HOUR_MS + 30 * DAY_MS
    assert run(tmp_path, expiry_ms - 1).expired == 0
    assert run(tmp_path, expiry_ms).expired == 1
    assert epochs(tmp_path) == [2]
    assert hidden.exists(), "for readers that began before"
    put(tmp_path, "controller-4", [4])
    run(tmp_path, expiry_ms + GRACE_MS)
    assert not hidden.parent.parent.exists()
    assert epochs(tmp_path) == [2]
    forever = Policy(delay_ms=DAY_MS, grace_ms=GRACE_MS, retention_ms=None)
    assert run(tmp_path, expiry_ms + 1000 * DAY_MS, forever).expired == 0


def test_two_at_once_are_harmless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "controller-1", [1])
    put(tmp_path, "controller-2", [2])
    seen = []

    def while_it_runs() -> bool:
        seen.append(compact(tmp_path / "metrics", POLICY, lambda: DUE_MS))
        return False

    assert compact(tmp_path / "metrics", POLICY, lambda: DUE_MS, stopped=while_it_runs) == Outcome(merged=2, into=1)
    assert seen == [None]


class Killed(BaseException):
    pass


def steps_of(patch: pytest.MonkeyPatch, before_each: Callable[[], None]) -> None:
    """Call ``before_each`` before every change of the file system."""

    def guarded(original: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            before_each()
            return original(*args, **kwargs)

        return call

    for name in ("replace", "unlink", "rmdir", "open"):
        patch.setattr(Path, name, guarded(getattr(Path, name)))
    patch.setattr(os, "fsync", guarded(os.fsync))


def history(storage: Path) -> list[tuple[int, Sequence[int]]]:
    """Return times at which a run has work, and the valid rows then; including late rows and expiry."""
    for number in range(3):
        put(storage, f"controller-{number}", [number])
    run(storage, DUE_MS)
    put(storage, "controller-3", [3])
    put(storage, "controller-5", [5], ts_ms=NOON_MS + 40 * DAY_MS)
    expiry_ms = NOON_MS + HOUR_MS + 30 * DAY_MS
    return [
        (DUE_MS + GRACE_MS, [0, 1, 2, 3, 5]),
        (DUE_MS + 2 * GRACE_MS, [0, 1, 2, 3, 5]),
        (expiry_ms, [5]),
        (expiry_ms + GRACE_MS, [5]),
    ]


class Steps:
    """Counts the changes of the file system, dies before one of them, and checks a reader's view at that time."""

    def __init__(self, kill_at: int, storage: Path) -> None:
        self.killed = False
        self.seen: list[int] | None = None
        self._left = kill_at
        self._storage = storage

    def before_each(self) -> None:
        if self.killed:
            return
        self._left -= 1
        if self._left < 0:
            self.killed = True
            self.seen = epochs(self._storage)
            raise Killed


def test_killed_before_any_change_and_read_before_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run that is killed at its n-th change, the next one that does the rest, and a reader at every step."""
    for kill_at in range(200):
        storage = tmp_path / str(kill_at)
        counted = [0, 1, 2, 3, 5]
        script = history(storage)
        steps = Steps(kill_at, storage)
        for at_ms, after in script:
            with monkeypatch.context() as patch, contextlib.suppress(Killed):
                steps_of(patch, steps.before_each)
                run(storage, at_ms)
            if steps.seen is not None:
                assert steps.seen in (counted, after)
                assert epochs(storage) in (counted, after)
                steps.seen = None
                run(storage, at_ms)
            counted = [*after]
            assert epochs(storage) == counted
        for later in range(1, 4):
            run(storage, script[-1][0] + later * GRACE_MS)
        assert parquets(storage) == ["controller"]
        if not steps.killed:
            break
    assert kill_at > 20


def test_killed_while_readers_read(tmp_path: Path) -> None:
    """Real processes that compact until SIGKILL, repeatedly, with a concurrent reader."""
    chance = Random(1)
    for number in range(60):
        put(tmp_path, f"controller-{number}", [number], ts_ms=NOON_MS + number % 6 * HOUR_MS)
    code = (
        "import sys, itertools; from pathlib import Path; from muster.actors.tables.compaction import Policy, compact\n"
        "print('ready', flush=True)\n"
        f"for n in itertools.count({DUE_MS + DAY_MS}): compact(Path(sys.argv[1]), Policy(0, 10**9, None), lambda: n)"
    )
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "metrics")], stdout=subprocess.PIPE, cwd=ROOT
        )
        assert process.stdout is not None
        with process.stdout as pipe:
            pipe.readline()
            for late in range(chance.randrange(1, 12)):
                assert epochs(tmp_path)[:60] == list(range(60))
                put(tmp_path, f"late-{process.pid}-{late}", [1000 + late])
            process.kill()
        process.wait()
    before = epochs(tmp_path)
    assert before[:60] == list(range(60))
    run(tmp_path, DUE_MS + DAY_MS)
    assert epochs(tmp_path) == before
    assert len(files(tmp_path, LIFECYCLE)) == 6


def test_the_thread_merges_and_says_what_is_wrong_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(tmp_path, "controller-1", [1])
    put(tmp_path, "controller-2", [2])
    pq.write_table(pa.table({"x": [1]}), put(tmp_path, "foreign", []))
    dead = open_events(tmp_path / "metrics", "log-7")
    dead.add(event(7))
    die(dead)
    rounds = threading.Semaphore(0)

    def now_ms() -> int:
        rounds.release()
        return DUE_MS

    upkeep = TablesUpkeep(tmp_path / "metrics", Policy(0, 0, None), now_ms=now_ms)
    upkeep._wait_s = 0.001
    upkeep.start()
    for _ in range(30):
        assert rounds.acquire(timeout=60)
    upkeep.close()
    assert parquets(tmp_path) == ["foreign.parquet", "merged"]
    assert not [*tmp_path.rglob("*.jsonl")], "what a dead writer left is in the table, too"
    assert len([each for each in caplog.messages if "foreign.parquet" in each]) == 1
