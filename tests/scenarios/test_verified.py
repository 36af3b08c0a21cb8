"""Transcripts are played on Kafka again when they have changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.verified import unverified, verify
from tests.scenarios import suites


def test_a_transcript_that_has_changed_is_not_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("same", "changed"):
        (tmp_path / f"{name}.scenario").write_text(f"# {name}\n")
    monkeypatch.setattr(suites, "KAFKA", tmp_path)
    monkeypatch.setattr(suites, "TRANSACTIONS", tmp_path / "none")
    file = tmp_path / "verified.csv"
    assert [path.stem for path in unverified(file)] == ["changed", "same"]
    verify(unverified(file), file)
    assert unverified(file) == []
    (tmp_path / "changed.scenario").write_text("# another\n")
    (tmp_path / "new.scenario").write_text("# new\n")
    assert [path.stem for path in unverified(file)] == ["changed", "new"]
