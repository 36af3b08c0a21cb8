"""``muster groups``: what there is to do with consumer groups; each command but ``list`` is in a file of its own."""

from __future__ import annotations

from pathlib import Path

import click
from confluent_kafka import ConsumerGroupState

from actors import terminal
from gateway.cli.errors import CliError
from gateway.cli.group_admin import delete, evict
from gateway.cli.group_describe import describe
from gateway.cli.group_history import history
from gateway.cli.group_members import state_name
from gateway.cli.group_reset import reset_offsets
from gateway.cli.group_waiting import waiting
from gateway.cli.kafka import TIMEOUT_S, admin, result, text_of
from gateway.cli.output import print_json, print_table
from gateway.cli.reset_undo import PREFIX
from gateway.cli.running import bootstrap_servers, by_bootstrap

_STATES = {
    state_name(state): state
    for state in (
        ConsumerGroupState.EMPTY,
        ConsumerGroupState.PREPARING_REBALANCING,
        ConsumerGroupState.COMPLETING_REBALANCING,
        ConsumerGroupState.STABLE,
        ConsumerGroupState.DEAD,
    )
}


@click.group(epilog="Example: muster groups describe billing")
def groups() -> None:
    """List, describe and change consumer groups."""


@groups.command("list", epilog="Example: muster groups list --state Empty --json")
@by_bootstrap
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(list(_STATES), case_sensitive=False),
    metavar="STATE",
    help=f"Only those in this state: {', '.join(_STATES)}. May be given again.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
def list_(
    bootstrap_server: str | None, directory: Path, address: str | None, states: tuple[str, ...], as_json: bool
) -> None:
    """Show every group and its state."""
    client = admin(bootstrap_servers(bootstrap_server, directory, address))
    wanted = {_STATES[state] for state in states}
    asked = client.list_consumer_groups(request_timeout=TIMEOUT_S, **({"states": wanted} if wanted else {}))
    found = result(asked, "groups cannot be listed")
    for error in found.errors:
        raise CliError(f"not every group can be listed: {text_of(error)}; try again") from error
    rows = [
        {"group": group.group_id, "state": state_name(group.state), "simple": group.is_simple_consumer_group}
        for group in sorted(found.valid, key=lambda group: group.group_id)
        if not group.group_id.startswith(PREFIX)
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(("GROUP", "STATE"), [(row["group"], row["state"]) for row in rows])
        if not rows:
            terminal.line("there is no such group" if states else "there are no groups", err=True)


for _command in (describe, history, waiting, reset_offsets, delete, evict):
    groups.add_command(_command)
