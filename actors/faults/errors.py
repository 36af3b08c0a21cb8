"""What can be wrong with a fault or with asking for one."""

from __future__ import annotations

from collections.abc import Iterable


class FaultError(Exception):
    """The fault was not injected, listed or cleared; the text says why."""


class FaultsDisabled(FaultError):
    """The cluster was started without ``fault.injection.enable=true``: every call is refused."""


class InvalidFault(FaultError, ValueError):
    """The fault, or the plan, cannot be. ``problems`` has a text for everything that is wrong with it."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class UnknownTarget(FaultError, LookupError):
    """No fault with that id, or no actor of that name that runs."""


class Unreachable(FaultError, ConnectionError):
    """No gateway answered, or the controller did not answer it. Whether the fault was injected is not known."""
