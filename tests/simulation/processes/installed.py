"""Runs product modules on virtual time for the duration of a simulated world."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from muster.actors.coordinator import appends, opening, shell
from muster.actors.log import committer, trouble
from muster.actors.log.files import directory
from muster.actors.log.upkeep import cleaner
from muster.actors.offsets import commit_turns, mapping_writer, partition, serving
from muster.actors.reconciler import reconciler
from muster.actors.runtime import rate_limiter
from muster.actors.wire.internal import leases
from muster.placement.zookeeper import client, ephemeral, mirror, outages
from tests.simulation.processes.copies import WatchedLog
from tests.simulation.processes.disk import without_sync, written_at_once
from tests.simulation.processes.process import Machine
from tests.simulation.processes.threads import QUEUE, THREADING, here, time_of
from tests.simulation.processes.zookeeper_client import Ensemble


class _Quiet:
    """Replaces what is written for analysis: nothing waits for it or depends on it."""

    def __init__(self, *args: Any, **named: Any) -> None: ...

    def follow(self, view: Any) -> None: ...

    def start(self) -> None: ...

    async def close(self) -> None: ...


@contextmanager
def installed(machine: Machine, ensemble: Ensemble) -> Iterator[None]:
    """Inside, threads, clocks, random ids and the ZooKeeper client are those of the simulation."""

    def new_id() -> uuid.UUID:
        return uuid.UUID(int=machine.chance.getrandbits(128))

    def now_ms() -> int:
        return here().now_ms

    time = time_of(machine)
    changes: list[tuple[Any, str, Any]] = [
        *((module, "threading", THREADING) for module in (mapping_writer, mirror, ephemeral, cleaner, rate_limiter)),
        *(
            (module, "time", time)
            for module in (*(client, mirror, outages, reconciler, rate_limiter, committer, trouble, cleaner, leases),)
        ),
        *((module, "client", ensemble.client) for module in (mapping_writer, ephemeral, reconciler)),
        *((module, "now_ms", now_ms) for module in (appends, commit_turns, opening, partition, serving, shell)),
        *((serving, name, _Quiet) for name in ("RebalanceHistory", "GroupHistory", "RebalanceStore")),
        (mirror, "queue", QUEUE),
        (partition, "uuid", SimpleNamespace(uuid4=new_id)),
        (opening, "PartitionLog", WatchedLog),
        (directory, "sync_directory", without_sync),
        (directory, "write_atomically", written_at_once),
    ]
    with ExitStack() as stack:
        for place, name, instead in changes:
            stack.enter_context(patch.object(place, name, instead))
        before = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        stack.callback(logging.disable, before)
        yield
