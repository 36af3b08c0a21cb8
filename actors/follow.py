"""How an actor keeps up with the cluster view: a long poll on the controller, for as long as it lives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import RayError

from actors.settings import ClusterSettings
from placement.view import ClusterView

log = logging.getLogger(__name__)

_RETRY_S = 0.2


async def controller_of(settings: ClusterSettings) -> Any:
    """Handle of the controller actor."""
    return await asyncio.to_thread(ray.get_actor, "controller", settings.namespace)


class ViewFollower:
    """Calls ``on_view`` with every newer view; when the controller is away the last one stays."""

    def __init__(self, settings: ClusterSettings, on_view: Callable[[ClusterView], None]) -> None:
        self._settings = settings
        self._on_view = on_view
        self._controller: Any = None
        self._view: ClusterView | None = None
        self._task: asyncio.Task[None] | None = None

    async def first(self) -> ClusterView:
        """The first view; then the rest is followed in the background."""
        self._controller = await controller_of(self._settings)
        while self._view is None:
            await self._poll()
        self._task = asyncio.get_running_loop().create_task(self._follow())
        return self._view

    async def _follow(self) -> None:
        while True:
            if await self._poll() and self._view is not None:
                self._on_view(self._view)

    async def _poll(self) -> bool:
        """Whether a newer view came."""
        try:
            view = await self._controller.watch.remote(self._view.order if self._view else None)
        except RayError as error:
            log.info("the controller does not answer: %s", type(error).__name__)
            await asyncio.sleep(_RETRY_S)
            return False
        if view is not None:
            self._view = view
        return view is not None

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
