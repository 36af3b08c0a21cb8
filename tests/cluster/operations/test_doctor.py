"""``muster doctor`` beside a Muster that runs."""

from __future__ import annotations

import json

from tests.cli.doctor.test_doctor import MACHINES_OWN
from tests.muster_process import Muster


def test_a_muster_that_runs(muster: Muster) -> None:
    muster.until_all_serve()
    rows = json.loads(muster.cli("doctor", "--json", check=False))
    found = {row["check"]: row["found"] for row in rows}
    assert f"runs with pid {muster.process.pid}" in found["muster up"] if muster.process else False
    assert [row["level"] for row in rows if row["check"] == "advertised"] == ["ok"] * len(muster.ready["bootstrap"])
    assert len([check for check in found if check.startswith("clock of 127.0.0.1")]) == len(muster.metrics_urls)
    assert "version" in found["zookeeper"]
    assert not [row for row in rows if row["level"] == "failed" and row["check"] != MACHINES_OWN]
