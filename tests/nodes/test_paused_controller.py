"""Every process of Muster on the controller's node is paused: only actors of other nodes can notice."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from tests.cluster.consumer_groups.groups import create
from tests.muster_process import eventually
from tests.nodes.bench import SETTLED_S, Bench


@pytest.mark.timeout(600)
def test_actors_of_other_nodes_replace_a_paused_controller(
    on_nodes: Bench, fresh: Callable[[str], str], record_property: Any
) -> None:
    homes = on_nodes.until_settled()
    pids = {actor["name"]: actor["pid"] for actor in on_nodes.status()["actors"]}
    there = {name for name, home in homes.items() if home == homes["controller"]}
    assert any(name.startswith("log-") for name, home in homes.items() if home != homes["controller"])
    processes = {name: psutil.Process(pids[name]) for name in there if not name.startswith("gateway-")}
    controller = processes["controller"]
    try:
        for process in processes.values():
            process.suspend()
        paused_s = time.monotonic()
        eventually(controller.is_running, lambda running: not running, "the end of the controller", SETTLED_S)
        record_property("ended after", round(time.monotonic() - paused_s, 2))
        create(on_nodes.muster, fresh("made-after"))
        record_property("a topic is created after", round(time.monotonic() - paused_s, 2))
        print(f"a node's actors are paused: a topic is created after {time.monotonic() - paused_s:.2f} s")
    finally:
        for process in processes.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
    after = on_nodes.until_settled()
    assert after.keys() == homes.keys()
