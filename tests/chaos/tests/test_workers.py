"""The client processes of a run, without a run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_muster.bound import bound
from tests.chaos.fleet import Fleet
from tests.chaos.journal import Journal
from tests.chaos.plan import Plan, Worker
from tests.chaos.workers.spec import CONSUMER, PRODUCER, Spec
from tests.muster_process import eventually


@pytest.mark.parametrize("role", [PRODUCER, CONSUMER])
def test_a_client_that_ends_before_it_has_connected_has_not_given_up(tmp_path: Path, role: str) -> None:
    """aiokafka's; kafka-python's takes 30 s to see that nothing listens."""
    journal, path = tmp_path / "c.1.jsonl", tmp_path / "c.1.json"
    closed = "127.0.0.1:9"  # discard: nothing listens there
    Spec(
        name="c.1", role=role, library="aiokafka", bootstrap=closed, topics={"t": 1}, journal=str(journal), group="g"
    ).save(path)
    command = bound([sys.executable, "-m", "tests.chaos.workers", str(path)], signal.SIGKILL)
    with (tmp_path / "c.1.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        eventually(lambda: events(journal), lambda seen: len(seen) >= 2, "it connects")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, (tmp_path / "c.1.log").read_text()
    assert events(journal)[-1] == "stop"
    assert "fatal" not in events(journal)


def test_a_paused_client_that_is_to_leave_goes_on_and_ends(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "run.jsonl")
    worker = Worker(name="p", role=PRODUCER, library="aiokafka", topics=("t",))
    plan = Plan(seed=0, minutes=0, topics={"t": 1}, workers=(worker,), faults=())
    fleet = Fleet(plan, "127.0.0.1:9", tmp_path, journal, 50)
    fleet.start("p")
    try:
        own = tmp_path / "p.1.jsonl"
        eventually(lambda: events(own) if own.exists() else [], lambda seen: len(seen) >= 2, "it connects")
        resume = fleet.pause("p", 0.0)
        fleet.leave("p")
        assert not fleet.gone()
        resume()
        eventually(fleet.gone, bool, "it ends")
        assert events(tmp_path / "run.jsonl") == ["worker-paused", "worker-ended"]
    finally:
        fleet.end()


def events(journal: Path) -> list[str]:
    return [json.loads(line)["e"] for line in journal.read_text().splitlines()]
