"""How an actor follows the cluster view: a long poll on the controller, for as long as the actor lives."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

import ray
from ray.exceptions import RayError

from muster.actors.runtime.settings import ClusterSettings
from muster.placement.view import ClusterView

log = logging.getLogger(__name__)

_RETRY_S = 0.2
_SILENT_S = 60.0
"""Without news, the controller responds every 20 s."""


async def controller_of(settings: ClusterSettings) -> Any:
    """Handle of the controller actor. Raises ValueError if there is none."""
    return await asyncio.to_thread(ray.get_actor, "controller", settings.namespace)


class ControllerAway(RayError):
    """There is no controller at the moment."""


class CurrentController:
    """A handle of the current controller, with the methods of the Ray actor. Raises RayError.

    To Ray, a controller that was moved to another node is another actor, and handles of the old one are useless.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings

    def __getattr__(self, method: str) -> _Method:
        return _Method(self._settings, method)


class _Method:
    __slots__ = ("_name", "_settings")

    def __init__(self, settings: ClusterSettings, name: str) -> None:
        self._settings = settings
        self._name = name

    async def remote(self, *arguments: Any) -> Any:
        try:
            handle = await controller_of(self._settings)
        except ValueError as error:
            raise ControllerAway(str(error)) from error
        return await getattr(handle, self._name).remote(*arguments)


class ResponseObserver(Protocol):
    """Informed whether the controller responds to requests."""

    def answered(self, epoch: int) -> None:
        """Note a response of the controller, under that controller epoch."""

    def silent(self, reason: str) -> None:
        """Note that the controller did not respond."""


class ViewFollower:
    """Requests newer views; while the controller is unavailable, the last view stays."""

    def __init__(self, settings: ClusterSettings, name: str, seen: ResponseObserver | None = None) -> None:
        """``name`` is that of the following actor; ``seen`` is informed whether the controller responds."""
        self._settings = settings
        self._name = name
        self._seen = seen
        self._controller: Any = None
        self._answered_s: float | None = None
        self._view: ClusterView | None = None
        self._task: asyncio.Task[None] | None = None

    async def first(self) -> ClusterView:
        """Return the first view, however long it takes."""
        while self._view is None:
            await self._poll()
        return self._view

    def follow(self, on_view: Callable[[ClusterView], None], since: ClusterView | None = None) -> None:
        """Call ``on_view`` with every view newer than the first, including those that have arrived since.

        Separate from :meth:`first`: in between, the owner can create the parts that ``on_view`` needs. ``since`` is a
        view that the owner already has.
        """
        self._view = self._view or since
        self._task = asyncio.get_running_loop().create_task(self._follow(on_view))

    async def _follow(self, on_view: Callable[[ClusterView], None]) -> None:
        while True:
            if await self._poll() and self._view is not None:
                try:
                    on_view(self._view)
                except Exception:
                    log.exception("view %s was not taken in; the next one is", self._view.order)

    async def _poll(self) -> bool:
        """Poll once; return whether a newer view arrived."""
        try:
            if self._controller is None:
                self._controller = await controller_of(self._settings)
            view = await self._controller.watch.remote(self._view.order if self._view else None, self._name)
        except (RayError, ValueError) as error:
            log.info("the controller does not answer: %s", type(error).__name__)
            self._controller = self._answered_s = None
            if self._seen is not None:
                self._seen.silent(type(error).__name__)
            await asyncio.sleep(_RETRY_S)
            return False
        self._answered_s = time.monotonic()
        if view is not None:
            self._view = view
        if self._seen is not None and self._view is not None:
            self._seen.answered(self._view.controller_epoch)
        return view is not None

    def responds(self) -> bool:
        """Whether the controller has responded to the last request, and lately."""
        return self._answered_s is not None and time.monotonic() - self._answered_s < _SILENT_S

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
