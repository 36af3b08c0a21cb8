"""``muster backup`` and ``muster restore`` killed at every step: what is left, and what can be done with it."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.gateway.cli.backup.contents import MANIFEST
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.main import cli
from muster.gateway.cli.storage import directory as storage_directory
from muster.gateway.cli.storage.fit import cluster_id_in, prepare
from pytest_muster.bound import bound
from tests.cli.backup.test_backup import empty_zookeeper, failed, storage
from tests.cli.runner import runner
from tests.zookeeper_fixture import eventually

__all__ = ["empty_zookeeper", "storage"]

_LARGE_BYTES = 64 << 20
"""To copy them takes longer than to notice that it has begun."""


def killed(arguments: list[str], kind: signal.Signals, when: Callable[[str], bool]) -> str:
    """Run a command until ``when`` likes its progress; then it gets the signal. What it has written to stderr."""
    command = bound([sys.executable, "-m", "muster.gateway.cli.main", *arguments])
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if when(said):
            process.send_signal(kind)
            break
    rest = process.communicate()[1]
    assert process.returncode != 0, f"it ended before the signal: {said}{rest}"
    return said + rest


def step(name: str) -> Callable[[str], bool]:
    return lambda said: name in said


def content(storage: Path) -> dict[str, tuple[str, int]]:
    """SHA-256 and time of change of each file but those of ``run``."""
    return {
        str(path.relative_to(storage)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in storage.rglob("*")
        if path.is_file() and path.relative_to(storage).parts[0] != "run"
    }


@pytest.fixture
def large(storage: Path) -> Path:
    """Return the storage, with a file of a table that takes a while."""
    with (next((storage / "metrics").rglob("*.parquet"))).open("ab") as file:
        file.write(os.urandom(1 << 20) * (_LARGE_BYTES >> 20))
    return storage


def copying(folder: Path) -> Callable[[str], bool]:
    """In the middle of the large file."""

    def begun() -> bool:
        return any(path.stat().st_size for path in folder.glob(".backup.incomplete-*/storage/metrics/**/*.parquet"))

    return lambda said: "copying" in said and bool(eventually(begun, "a part of the file is copied"))


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_backup_is_none_and_harms_nothing(
    large: Path, tmp_path: Path, zk_hosts: str, empty_zookeeper: str, kind: signal.Signals
) -> None:
    before, target = content(large), tmp_path / "backup"
    arguments = ["backup", str(target), "--storage", str(large), "--zookeeper", zk_hosts]
    points = [step("capturing logs"), step("capturing tables"), step("reading ZooKeeper"), copying(tmp_path)]
    for when in points if kind == signal.SIGKILL else points[-1:]:
        killed(arguments, kind, when)
        assert not target.exists()
        for left in tmp_path.glob(".backup.incomplete-*"):
            assert not (left / MANIFEST).exists()
            assert "is no backup" in failed("restore", str(left), "--storage", str(tmp_path / "new"))
        assert not (tmp_path / "new").exists()
        assert content(large) == before
    done = runner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    assert list((large / "run" / "backup").iterdir()) == []
    assert content(large) == before
    restored = tmp_path / "new"
    runner().invoke(cli, ["restore", str(target), "--storage", str(restored), "--zookeeper", empty_zookeeper])
    copies = {path: digest for path, (digest, _) in content(restored).items() if path.startswith(("logs/", "metrics/"))}
    assert copies
    assert copies.items() <= {path: digest for path, (digest, _) in before.items()}.items()


def test_a_killed_restore_does_not_start(large: Path, tmp_path: Path, zk_hosts: str, empty_zookeeper: str) -> None:
    """Nor is it continued: the storage and the nodes in ZooKeeper have to be new."""
    backup, new = tmp_path / "backup", tmp_path / "new"
    made = runner().invoke(cli, ["backup", str(backup), "--storage", str(large), "--zookeeper", zk_hosts])
    assert made.exit_code == 0, made.output
    before = content(backup)
    for point in ("copying", "creating the nodes"):
        arguments = ["restore", str(backup), "--storage", str(new), "--zookeeper", f"{empty_zookeeper}-{point[:4]}"]
        killed(arguments, signal.SIGKILL, step(point))
        with pytest.raises(CliError, match="a muster restore into it has not ended"):
            prepare(new)
        assert "is not empty" in failed(*arguments)
        new.rename(tmp_path / f"{point[:4]}")
    assert content(backup) == before
    arguments[-1] = f"{empty_zookeeper}-again"
    assert runner().invoke(cli, arguments).exit_code == 0
    prepare(new)
    assert cluster_id_in(new) == storage_directory.cluster_id(large)
