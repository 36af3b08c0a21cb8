"""Groups that a command needs to exist."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from muster.gateway.cli.client.cluster import group_names
from muster.gateway.cli.client.gateways import Coordinator
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.suggestions import not_found
from muster.gateway.client.groups.members import Group, described

_SUGGEST_S = 2.0
"""Limit of what is only asked for a suggestion."""


def require(bootstrap: str, group: str) -> Group:
    """Return the group. Raises CliError if it does not exist."""
    found = described(partial(Coordinator, bootstrap), group)
    if not found.exists:
        raise unknown(group, lambda: bootstrap)
    return found


def unknown(group: str, bootstrap: Callable[[], str]) -> CliError:
    """Return the error for a group that does not exist; it names similar ones, if that gateway lists groups."""
    return not_found("group", group, lambda: group_names(bootstrap(), _SUGGEST_S))
