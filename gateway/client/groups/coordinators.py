"""Connections over which groups are administered."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from muster.gateway.client.kafka.requests import Requests


class GroupCoordinator(Requests, Protocol):
    """The coordinator of one group."""

    @property
    def group(self) -> str: ...

    @property
    def address(self) -> str:
        """``HOST:PORT``, once a request was sent."""


CoordinatorOf = Callable[[str], AbstractContextManager[GroupCoordinator]]
"""Returns the coordinator of that group, for a ``with`` block."""
