"""Ends exactly one process, on whichever node it runs."""

from __future__ import annotations

import asyncio
import logging
import signal

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from muster.actors.runtime.errors import first_line
from muster.actors.runtime.ray.processes import NotAnActor, signal_process

log = logging.getLogger(__name__)

_ELSEWHERE_S = 15.0


async def end_process(node_id: str, pid: int) -> bool:
    """Send SIGKILL to an actor's process, through Ray if it is on another node. Returns whether it has ended, or will.

    ``ray.kill`` would end whichever process the actor has when the request arrives, perhaps a new one. This hits the
    one with that pid or none, so any number of actors may do it, and late.
    """
    try:
        if node_id == ray.get_runtime_context().get_node_id():
            kill(pid)
        else:
            async with asyncio.timeout(_ELSEWHERE_S):
                await _kill_on(node_id, pid)
    except (RayError, TimeoutError, OSError) as error:
        log.info("pid %d on node %s is not ended: %s", pid, node_id, first_line(error))
        return False
    return True


async def _kill_on(node_id: str, pid: int) -> None:
    there = NodeAffinitySchedulingStrategy(node_id, soft=False)
    await ray.remote(kill).options(num_cpus=0, max_retries=0, scheduling_strategy=there).remote(pid)


def kill(pid: int) -> None:
    """Send SIGKILL to an actor's process on this node; none if it has ended. Raises PermissionError."""
    try:
        signal_process(pid, signal.SIGKILL)
    except NotAnActor:
        log.info("pid %d has ended already", pid)
