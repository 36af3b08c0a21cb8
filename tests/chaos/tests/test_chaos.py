"""A minute of chaos: real clients, a real cluster, a fixed seed. Longer ones: ``make chaos SEED=S MINUTES=M``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos import plan
from tests.chaos.cluster import ROOT

SEED, MINUTES = 54, 1.0
END_S = 400


@pytest.mark.ring(name="chaos")
@pytest.mark.timeout(END_S + 60)
def test_nothing_is_lost_in_a_minute_of_faults(tmp_path: Path) -> None:
    """The report lists the run's actions; a failure shows it."""
    command = [sys.executable, "-m", "tests.chaos", "--seed", str(SEED), "--minutes", str(MINUTES)]
    folder = tmp_path / "chaos"
    done = subprocess.run(
        [*command, "--folder", str(folder)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=END_S,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
    assert "lost: nothing" in done.stdout
    print(done.stdout)


def test_a_seed_is_a_plan() -> None:
    assert plan.make(3, 5).as_json() == plan.make(3, 5).as_json()
    assert plan.make(3, 5).faults != plan.make(4, 5).faults


@pytest.mark.parametrize("seed", range(20))
def test_every_plan_leaves_time_to_come_through(seed: int) -> None:
    made = plan.make(seed, 10)
    assert {fault.kind for fault in made.faults} == set(plan.KINDS), "all kinds in ten minutes"
    times = [fault.at_s for fault in made.faults]
    assert times == sorted(times)
    assert times[0] >= plan.WARM_S
    assert max(fault.at_s + fault.for_s for fault in made.faults) <= made.quiet_at_s
    targets = {worker.name for worker in made.workers}
    assert all(fault.target in targets for fault in made.faults if fault.kind.startswith("client-"))
    assert {worker.library for worker in made.workers} == {"confluent", "kafka-python", "aiokafka"}
    assert len(made.groups) == 8
