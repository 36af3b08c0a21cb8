"""Moves the controller to another node: its own supervisor cannot do that."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from muster.actors.controller.supervisor import detached
from muster.actors.runtime.process import log_to_file
from muster.actors.runtime.settings import ClusterSettings

log = logging.getLogger(__name__)

NAME = "controller-mover"
_RETRY_S = 0.1
_START_S = 30.0


class ControllerMover:
    """The Ray actor ``controller-mover``: ends the controller, creates a new one on its own node, and ends itself.

    It is detached and always restarts, so a crash between the two steps does not leave the cluster without a
    controller.
    """

    def __init__(self, settings: ClusterSettings, old: Any, controller: type, *arguments: Any) -> None:
        """``controller(*arguments)`` creates the new controller; ``old``, a handle, is the one that it replaces."""
        log_to_file(Path(settings.storage), NAME, settings.log_format)
        self._namespace = settings.namespace
        self._old = old
        self._controller = controller
        self._arguments = arguments
        threading.Thread(target=self._run, name=NAME, daemon=True).start()

    def _run(self) -> None:
        while not self._replaced():
            time.sleep(_RETRY_S)
        while True:  # Ray may not have registered this process yet
            with contextlib.suppress(RayError, ValueError):
                ray.kill(ray.get_actor(NAME, self._namespace), no_restart=True)
            time.sleep(_RETRY_S)

    def _replaced(self) -> bool:
        """Whether a controller other than the old one serves. Another process may have created it."""
        node_id = ray.get_runtime_context().get_node_id()
        try:
            found = detached(self._controller, "controller", self._namespace, *self._arguments, node_id=node_id)
            if found == self._old:
                ray.kill(found, no_restart=True)
                return False
            ray.get(found.start.remote(), timeout=_START_S)
        except (RayError, ValueError, TimeoutError) as error:
            log.info("the controller is not replaced yet: %s", error)
            return False
        log.info("the controller serves on node %s", node_id)
        return True

    def ping(self) -> None:
        """Return once the process runs."""


async def move_controller(node_id: str, settings: ClusterSettings, controller: type, *arguments: Any) -> None:
    """Replace the calling controller by a new ``controller(*arguments)`` on that node; this ends the caller.

    Raises RayError if that node cannot run it; then nothing has changed.
    """
    old = ray.get_runtime_context().current_actor

    def make() -> Any:
        return detached(
            ControllerMover, NAME, settings.namespace, settings, old, controller, *arguments, node_id=node_id
        )

    mover = await asyncio.to_thread(make)
    await mover.ping.remote()
    await asyncio.Event().wait()
