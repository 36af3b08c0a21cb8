"""A private Muster, from its start in a user's program to the program's end, however it ends."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

import muster
from tests.muster_process import eventually
from tests.ray.programs import Program, family, keepers_of, program, until_gone

in_ring = pytest.mark.ring(name="ray")

_START = """
import asyncio, json, multiprocessing, os, signal, sys, threading
import muster

def seen():
    handlers = {number.name: str(signal.getsignal(number)) for number in signal.Signals}
    children = open(f"/proc/self/task/{os.getpid()}/children").read()
    return handlers, signal.pthread_sigmask(signal.SIG_BLOCK, []), dict(os.environ), threading.enumerate(), children

def show(kafka):
    print(json.dumps([kafka.topic("flights", partitions=2), kafka.bootstrap, kafka.http]), flush=True)

before = seen()
"""


class Started:
    """Processes and directories of the private Muster of a program, which has shown it."""

    def __init__(self, running: Program, temporary: Path) -> None:
        """``temporary``: the program's TMPDIR."""
        self.topic, self.bootstrap, self.http = json.loads(running.line())
        (keeper,) = keepers_of(running.process.pid)
        self._pids = family(keeper)
        self._temporary = temporary
        states = [json.loads(file.read_text()) for file in temporary.rglob("run/cluster.json")]
        self._ray = [Path(state["ray_temp_dir"]) for state in states]

    def until_gone(self) -> None:
        until_gone(*self._pids)
        assert len(self._pids) > 5
        assert not [*self._temporary.glob("muster-*")]
        assert not [folder for folder in self._ray if folder.exists()]


def test_a_script_sees_nothing_of_it_and_killed_leaves_nothing(tmp_path: Path) -> None:
    """Variables for a Ray that the script uses do not reach Muster's."""
    source = f"""{_START}
kafka = muster.run()
show(kafka)
assert seen() == before
assert "ray" not in sys.modules
print("same", flush=True)
input()
"""
    variables = {"TMPDIR": str(tmp_path), "RAY_ADDRESS": "127.0.0.1:1", "RAY_AUTH_MODE": "token"}
    with program(source, **variables) as running:
        started = Started(running, tmp_path)
        assert running.line() == "same"
        assert muster.connect(started.bootstrap).topic("flights", partitions=2) == "flights"
        assert len(started.http) == 1
        running.end(signal.SIGKILL)
        started.until_gone()


def test_what_is_refused_is_said() -> None:
    with pytest.raises(
        muster.NotStarted, match=r"(?s)exit code 1; the end of its output:.*muster: .*no\.such\.property"
    ):
        muster.run(properties={"no.such.property": "1"})


def test_a_storage_in_use_is_refused(kafka: muster.Cluster, storage: Path) -> None:
    with pytest.raises(muster.NotStarted, match=f"storage path {re.escape(str(storage))} is in use by the muster up"):
        muster.run(storage)
    assert kafka.topic("still-served") == "still-served"


@in_ring
def test_a_script_that_ends_leaves_nothing_and_says_nothing(tmp_path: Path) -> None:
    source = f"{_START}\nwith muster.run() as kafka:\n    show(kafka)\n    input()\nassert seen() == before\n"
    with program(source, TMPDIR=str(tmp_path)) as running:
        started = Started(running, tmp_path)
        running.go_on()
        assert running.end() == (0, "", "")
        started.until_gone()


@in_ring
def test_ctrl_c_while_it_starts(tmp_path: Path) -> None:
    """A terminal sends it to the group of the program, of which nothing of Muster is part."""
    source = f"{_START}\nos.setpgid(0, 0)\nprint('starting', flush=True)\nmuster.run()"
    with program(source, TMPDIR=str(tmp_path)) as running:
        running.line()
        eventually(lambda: [*tmp_path.rglob("run/lock")], bool, "muster up starts")
        (keeper,) = keepers_of(running.process.pid)
        pids = family(keeper)
        os.killpg(running.process.pid, signal.SIGINT)
        _, _, err = running.end()
        assert err.endswith("KeyboardInterrupt\n")
        until_gone(*pids)
        assert not [*tmp_path.glob("muster-*")]


@in_ring
def test_a_storage_is_used_again_at_once_after_a_kill(tmp_path: Path) -> None:
    """The Muster of the killed program still stops."""
    source = f"{_START}\nkafka = muster.run({str(tmp_path / 'storage')!r})\nshow(kafka)\ninput()"
    with program(source) as running:
        running.line()
        running.end(signal.SIGKILL)
    with (
        muster.run(tmp_path / "storage") as kafka,
        pytest.raises(muster.TopicDiffers, match="exists with 2 partitions"),
    ):
        kafka.topic("flights", partitions=3)


@in_ring
def test_a_running_event_loop(tmp_path: Path) -> None:
    """It goes on while Muster starts and stops."""
    source = f"""{_START}
async def main():
    turns = 0
    async def turn():
        nonlocal turns
        while True:
            await asyncio.sleep(0.01)
            turns += 1
    turning = asyncio.create_task(turn())
    async with await asyncio.to_thread(muster.run) as kafka:
        assert turns > 20, turns
        show(kafka)
        turns = 0
    assert turns > 5, turns
    turning.cancel()

asyncio.run(main())
"""
    with program(source, TMPDIR=str(tmp_path)) as running:
        started = Started(running, tmp_path)
        code, _, err = running.end()
        assert code == 0, err
        started.until_gone()


@in_ring
def test_forked_processes_use_it(tmp_path: Path) -> None:
    source = f"""{_START}
fork = multiprocessing.get_context("fork")
with muster.run() as kafka:
    show(kafka)
    for number in range(3):
        child = fork.Process(target=kafka.topic, args=[f"topic-{{number}}"])
        child.start()
        child.join()
        assert child.exitcode == 0
    with fork.Pool(1) as pool:
        assert pool.apply(kafka.topic, ["topic-3"]) == "topic-3"
    assert kafka.topic("topic-0") == "topic-0"
"""
    with program(source, TMPDIR=str(tmp_path)) as running:
        started = Started(running, tmp_path)
        code, _, err = running.end()
        assert code == 0, err
        started.until_gone()


@in_ring
def test_a_ray_of_the_program_beside_it(tmp_path: Path) -> None:
    """A plain ray.init() starts one of its own; home and token are the test's."""
    source = f"""{_START}
import ray
with muster.run() as kafka:
    show(kafka)
    ray.init(num_cpus=1, include_dashboard=False, object_store_memory=80_000_000, log_to_driver=False)
    assert len(ray.nodes()) == 1
    topics = ray.data.range(2, override_num_blocks=1).map(lambda row: {{"topic": kafka.topic(f"topic-{{row['id']}}")}})
    print(sorted(row["topic"] for row in topics.take_all()), flush=True)
    ray.shutdown()
"""
    with program(source, TMPDIR=str(tmp_path), HOME=str(tmp_path), RAY_TMPDIR="/tmp") as running:
        started = Started(running, tmp_path)
        assert running.line() == "['topic-0', 'topic-1']"
        code, _, err = running.end()
        assert code == 0, err
        started.until_gone()


@in_ring
def test_no_time_to_stop(tmp_path: Path) -> None:
    """``muster up`` is killed, and its watchdog ends the rest."""
    source = f"{_START}\nkafka = muster.run()\nshow(kafka)\ninput()\nkafka.stop(0)\n"
    with program(source, TMPDIR=str(tmp_path)) as running:
        started = Started(running, tmp_path)
        running.go_on()
        assert running.end() == (0, "", "")
        started.until_gone()
