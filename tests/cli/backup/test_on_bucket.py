"""A Muster on a bucket is neither backed up from a node's copies, nor restored into them."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.actors.tables.reading import BUCKET
from muster.gateway.cli import main

URI = "s3://bucket/prefix"
REFUSED = f"muster backup and restore know directories only, and this Muster lives on {URI}"


def test_the_directory_of_a_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has copies of the logs that this node serves, no others."""
    node = tmp_path / "node"
    (node / "metrics").mkdir(parents=True)
    (node / "meta.properties").write_text("version=1\ncluster.id=c\n")
    (node / "metrics" / BUCKET).write_text(URI)
    assert main._run(["backup", str(tmp_path / "backup"), "--storage", str(node)]) == 1
    assert REFUSED in capsys.readouterr().err
    assert not (tmp_path / "backup").exists()


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_the_bucket(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main._run([command, str(tmp_path / "backup"), "--storage", URI]) == 1
    assert REFUSED in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []
