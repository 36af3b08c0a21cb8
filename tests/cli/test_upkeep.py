"""Upkeep of ``muster up``, with a real ZooKeeper."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.gateway.cli.lifecycle.zookeeper import Upkeep
from tests.zookeeper_fixture import eventually


def test_zookeeper_is_started_again_though_the_terminal_is_gone(tmp_path: Path) -> None:
    def note(_: str) -> None:
        raise BrokenPipeError

    (tmp_path / "run").mkdir()
    with EmbeddedZooKeeper.start(tmp_path / "zookeeper") as server:
        upkeep = Upkeep(tmp_path, server, note)
        upkeep.start()
        before = server.pid
        os.kill(before, signal.SIGKILL)
        eventually(lambda: server.alive and server.pid != before, "it is started again")
        upkeep.stop()
