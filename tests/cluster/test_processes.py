"""Processes of a running Muster: what they have loaded, and which of Ray's there are."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import psutil

from tests.muster_process import Muster

AGENTS = ("of a dashboard", "of runtime environments")


def test_no_actor_has_loaded_pandas(muster: Muster) -> None:
    actors = [actor for actor in muster.actors().values() if actor["state"] == "alive"]
    loaded = {
        actor["name"]: {library for library in ("pyarrow", "pandas") if any(f"/{library}/" in path for path in paths)}
        for actor in actors
        for paths in [[each.path for each in psutil.Process(actor["pid"]).memory_maps()]]
    }
    assert loaded == {actor["name"]: {"pyarrow"} for actor in actors}


def test_changes_to_ray_have_their_effect(muster: Muster) -> None:
    """A Ray that has renamed its internals would start as well, without what docs/ray-internals.md lists."""
    assert muster.process is not None
    up = psutil.Process(muster.process.pid)
    family = [each.cmdline() for each in up.children(recursive=True)]
    titles = {command[0] for command in family if command} - {sys.executable}
    assert not titles & {"ray::DashboardAgent", "ray::RuntimeEnvAgent", "ray::IDLE"}
    programs = [Path(word).name for command in family for word in command if word.endswith(".py")]
    assert not set(programs) & {"dashboard.py", "monitor.py", "log_monitor.py"}
    assert sum(word.endswith("cli/ray/agent.py") for command in family for word in command) == len(AGENTS)
    for actor in muster.actors().values():
        process = psutil.Process(actor["pid"])
        parent = process.parent()
        assert parent is not None
        assert "cli/ray/worker_forks.py" in " ".join(parent.cmdline()), actor["name"]
        assert process.nice() == up.nice(), actor["name"]
        assert not handles_sigterm(actor["pid"]), f"{actor['name']} wakes to look for signals"


def handles_sigterm(pid: int) -> bool:
    """Return whether the process has a handler: Ray's, until it no longer looks for signals."""
    status = Path(f"/proc/{pid}/status").read_text()
    (caught,) = (int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(caught >> signal.SIGTERM - 1 & 1)
