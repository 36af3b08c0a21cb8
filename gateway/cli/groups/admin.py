"""``muster groups delete`` and ``muster groups evict``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path

import click

from muster.actors.runtime import terminal
from muster.actors.runtime.words import counted
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.cli.client.cluster import admin, group_names
from muster.gateway.cli.client.gateways import Coordinator
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.groups.known import require
from muster.gateway.cli.names import NAME
from muster.gateway.cli.output import print_json
from muster.gateway.cli.running import bootstrap_servers, by_bootstrap
from muster.gateway.cli.suggestions import similar
from muster.gateway.client.groups import evicting, offsets, reset_undo
from muster.gateway.client.groups.members import described, in_words

EVICTED = "evicted by muster groups evict"
"""The reason in its LeaveGroup (KIP-800), which the coordinator records."""


@click.command(short_help="Delete groups and their offsets.", epilog="Example: muster groups delete billing reports")
@click.argument("groups", nargs=-1, required=True, type=NAME, metavar="GROUP...")
@by_bootstrap
@click.option("--json", "as_json", is_flag=True, help="Print the result of each as JSON.")
def delete(
    groups: Sequence[str], bootstrap_server: str | None, directory: Path, address: str | None, as_json: bool
) -> None:
    """Delete each GROUP, with its committed offsets and the offsets saved for --undo. A group with members is not
    deleted.

    A failure does not stop the other deletions; the exit code is 1 if any group could not be deleted.
    """
    bootstrap = bootstrap_servers(bootstrap_server, directory, address)
    admin(bootstrap)
    known = cache(lambda: group_names(bootstrap))
    failures = {group: _delete(bootstrap, group, known) for group in dict.fromkeys(groups)}
    if as_json:
        print_json([{"group": group, "deleted": not why, "error": why} for group, why in failures.items()])
    for group in [group for group, why in failures.items() if not why]:
        terminal.line(f"deleted {group}", err=True)
    if failed := [why for why in failures.values() if why]:
        raise CliError("; ".join(failed))


def _delete(bootstrap: str, group: str, known: Callable[[], Iterable[str]]) -> str | None:
    """Delete the group. Returns the reason if it could not be deleted, or None.

    ``known()``: names of groups to suggest instead.
    """
    with Coordinator(bootstrap, group) as coordinator:
        error = offsets.delete_group(coordinator)
    if error is ErrorCode.none:
        reset_undo.forget(partial(Coordinator, bootstrap), group)
        return None
    if error is ErrorCode.group_id_not_found:
        return f"there is no group {group}{similar(group, known)}"
    if error is ErrorCode.non_empty_group:
        found = described(partial(Coordinator, bootstrap), group)
        return f"group {group} is not empty ({found.state}), stop its members first: {in_words(found.members)}"
    return f"group {group} cannot be deleted: {error.name.upper()}"


@click.command(
    short_help="Remove a member from its group.", epilog="Example: muster groups evict billing invoice-printer-2"
)
@click.argument("group", type=NAME)
@click.argument("member", type=NAME)
@by_bootstrap
@click.option("--json", "as_json", is_flag=True, help="Print the evicted member as JSON.")
def evict(
    group: str, member: str, bootstrap_server: str | None, directory: Path, address: str | None, as_json: bool
) -> None:
    """Remove the member MEMBER from the group GROUP; its partitions are assigned to the other members.

    MEMBER is a member id, also as shortened in a table on a narrow terminal, a group.instance.id, or a client id that
    only one member has. A live client rejoins as soon
    as it notices: use this for a client that hangs, or for a static member that will not return.
    """
    bootstrap = bootstrap_servers(bootstrap_server, directory, address)
    admin(bootstrap)
    found = require(bootstrap, group)
    who = evicting.which(group, found.members, member)
    with Coordinator(bootstrap, group) as coordinator:
        evicting.evict(coordinator, who, EVICTED)
    if as_json:
        print_json(
            {
                "group": group,
                "member_id": who.member_id,
                "client_id": who.client_id,
                "host": who.host,
                "group_instance_id": who.group_instance_id,
            }
        )
    left = len(found.members) - 1
    terminal.line(
        f"evicted {in_words([who])} from group {group}; "
        + (f"its {counted(left, 'other member')} will rebalance" if left else "it has no other members")
        + "; a live client rejoins by itself",
        err=True,
    )
