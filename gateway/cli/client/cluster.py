"""Topics, offsets and groups of a cluster, for more than one command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.cli.client.gateways import Gateways, NoResponse
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.suggestions import not_found
from muster.gateway.client.kafka.requests import (
    LATEST,
    METADATA,
    Metadata,
    list_offsets,
    metadata,
    of_topics,
)
from muster.placement.view import UNDO_PREFIX

LIST_GROUPS = (16, 5)
_REACH_S, _MIN_EACH_S = 8.0, 1.0
"""Time in which a gateway must respond first, and what each address has of it at least."""


def admin(bootstrap: str, reach_s: float = _REACH_S) -> Gateways:
    """Return a client of these gateways, until the command ends.

    Raises CliError if none of them responds within ``reach_s``, which they share, or a second for each.
    """
    client = Gateways(bootstrap)
    if (context := click.get_current_context(silent=True)) is not None:
        context.call_on_close(client.close)
    try:
        client.request(*METADATA, of_topics([]), timeout_s=reach_s, each_s=max(_MIN_EACH_S, reach_s / client.count))
    except NoResponse as error:
        raise CliError(
            f"no gateway responds at {bootstrap} ({error.why}); see muster status; "
            "where clients need a login or TLS, use --command-config FILE"
        ) from error
    return client


def partitions_of(cluster: Metadata, topic: str) -> Mapping[int, int]:
    """Return the leaders of the topic's partitions by index. Raises CliError if there is no such topic."""
    found = cluster.topics.get(topic)
    if found is None:
        raise not_found("topic", topic, lambda: cluster.topics)
    return found


def list_groups(
    client: Gateways, states: Sequence[str] = (), types: Sequence[str] = (), timeout_s: float | None = None
) -> list[Any]:
    """Return the groups of all gateways, each of which lists its own, by name. Raises CliError.

    ``timeout_s``: how long each of them may take, if it is less than for other requests.
    """
    limits: dict[str, Any] = {} if timeout_s is None else {"timeout_s": timeout_s, "each_s": timeout_s}
    found: dict[str, Any] = {}
    for address in metadata(client).brokers.values():
        with Gateways(address) as gateway:
            response = gateway.request(*LIST_GROUPS, {"states_filter": states, "types_filter": types}, **limits)
        if response.error_code is not ErrorCode.none:
            raise CliError(f"not every group can be listed: {response.error_code.name.upper()}; try again")
        found |= {group.group_id: group for group in response.groups}
    return [group for _, group in sorted(found.items())]


def group_names(bootstrap: str, timeout_s: float = _REACH_S) -> list[str]:
    """Return the names of all groups. Raises CliError, also if a gateway takes longer than ``timeout_s``."""
    listed = list_groups(admin(bootstrap, timeout_s), timeout_s=timeout_s)
    return [each.group_id for each in listed if not each.group_id.startswith(UNDO_PREFIX)]


def end_offsets(client: Gateways, topic: str, partitions: Iterable[int], at: int = LATEST) -> dict[int, int]:
    """Start or end offsets of the topic's partitions. CliError if they cannot be read."""
    found = list_offsets(client, ((topic, index) for index in partitions), at)
    return {index: offset for (_, index), offset in found.items()}
