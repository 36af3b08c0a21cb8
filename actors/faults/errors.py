"""Errors of faults and of requests for them."""

from __future__ import annotations

from collections.abc import Iterable


class FaultError(Exception):
    """The fault was not injected, listed or cleared; the text says why."""


class FaultsDisabled(FaultError):
    """The cluster was started without ``fault.injection.enable=true``: every call is refused."""


class InvalidFault(FaultError, ValueError):
    """The fault, or the plan, is invalid. ``problems`` has a text for everything that is wrong with it."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class UnknownTarget(FaultError, LookupError):
    """There is no fault with that id, or no running actor of that name."""


class Unreachable(FaultError, ConnectionError):
    """No gateway responded, or the controller did not respond to it. Whether the fault was injected is not known."""
