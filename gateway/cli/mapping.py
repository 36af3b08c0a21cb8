"""``muster mapping``: list, check and repair the client-to-group mapping in ZooKeeper.

All of it goes through the running reconciler, which alone decides: its plan is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from muster.actors.runtime import terminal
from muster.actors.runtime.narrow import Column, Kind
from muster.actors.runtime.words import counted
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.mapping_rows import (
    Filter,
    aside_rows,
    divergence_rows,
    done_rows,
    node_rows,
    planned_rows,
    summary,
)
from muster.gateway.cli.names import NAME
from muster.gateway.cli.output import print_json, print_table, print_text, with_wide
from muster.gateway.cli.running import by_storage_or_address, connected
from muster.gateway.cli.suggestions import Commands
from muster.gateway.client.errors import MusterError

if TYPE_CHECKING:
    from muster.actors.reconciler.reconciler import Comparison, Repaired

F = TypeVar("F", bound=Callable[..., Any])

_READ_S, _REPAIR_S = 60.0, 600.0
_DIFFERENT = 1
_CLIENT = (Column("HOST", Kind.NAME), Column("CLIENT ID", Kind.NAME), Column("GROUP", Kind.NAME))
_NODES = (
    *_CLIENT,
    Column("MEMBER", Kind.ID),
    Column("KIND"),
    *(Column(title, optional=True) for title in ("PRINCIPAL", "GENERATION")),
    Column("PARTITIONS", Kind.LIST, optional=True),
    Column("COORDINATOR", optional=True),
)
_NODE = (*_CLIENT, Column("MEMBER", Kind.ID), Column("PATH", Kind.NAME, optional=True))
_DIFFERENCES = (Column("DIFFERENCE"), Column("KIND", optional=True), *_NODE)
_WRITES = (Column("ACTION"), Column("KIND", optional=True), *_NODE)


class MappingUnreadable(CliError):
    """Raised if the comparison could not be made, which is not the same as a difference."""

    exit_code = 2


@click.group(
    cls=Commands,
    short_help="Show, check and repair the client-to-group mapping.",
    epilog="Example: muster mapping check",
)
def mapping() -> None:
    """Show, check and repair the mapping of clients to their groups, stored in ZooKeeper under /client_group_id.

    Coordinators write the mapping and the reconciler repairs it; consumers never wait for it.
    """


def _options(command: F) -> F:
    """Add the options of all commands. ``--format json`` is the former name of ``--json``."""

    @wraps(command)
    def with_form(form: str, as_json: bool, **given: Any) -> Any:
        return command(as_json=as_json or form == "json", **given)

    found: Any = with_form
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        with_wide,
        click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", hidden=True),
        click.option(
            "--client-id",
            type=NAME,
            metavar="ID",
            help="Show only this client id; an empty value is the empty client id.",
        ),
        click.option("--host", type=NAME, metavar="ADDRESS", help="Show only clients at this address."),
        click.option("--group", type=NAME, metavar="GROUP", help="Show only this group."),
    ):
        found = option(found)
    return by_storage_or_address(found)  # type: ignore[no-any-return]


@mapping.command("list", epilog="Example: muster mapping list --group billing --json")
@_options
def list_(directory: Path, address: str | None, as_json: bool, **wanted: str | None) -> None:
    """Show what ZooKeeper holds. A node that is not a registration is listed as such, with its path."""
    nodes = _call_reconciler(directory, address, "mapping", _READ_S)
    rows = node_rows(nodes, Filter(**wanted))
    given = _given(wanted)
    if as_json:
        print_json(rows)
    elif rows:
        known = [row for row in rows if "path" not in row]
        groups = counted(len({row["group"] for row in known}), "group")
        print_table(_NODES, [_cells(row, _NODES) for row in known], f"{counted(len(known), 'node')} of {groups}")
        for row in rows:
            if "path" in row:
                print_text(f"no registration: {row['path']}  {row['holds']}")
    if given and not rows:
        raise CliError(_no_node(given))
    if not rows:
        terminal.line("the mapping is empty", err=True)


@mapping.command(epilog="Example: muster mapping check --host 10.0.0.7")
@_options
def check(directory: Path, address: str | None, as_json: bool, **wanted: str | None) -> None:
    """Compare ZooKeeper with the coordinators. The exit code is 1 if they differ, and 2 if that is unknown or there is
    nothing to compare.
    """
    try:
        found: Comparison = _call_reconciler(directory, address, "compare", _READ_S)
    except MusterError as error:
        raise MappingUnreadable(error.message) from error
    some = Filter(**wanted)
    rows, aside = divergence_rows(found.divergences, some), aside_rows(found.left_alone, some)
    if not rows and not aside and _is_unknown(directory, address, wanted):
        raise MappingUnreadable(_no_node(_given(wanted)))
    if as_json:
        print_json({"differences": rows, "left_alone": aside, **summary(found)})
    else:
        if rows:
            print_table(_DIFFERENCES, [_cells(row, _DIFFERENCES) for row in rows])
        _say_left_alone(aside)
        print_text(f"{counted(len(rows), 'difference')}; {_size(found)}", err=True)
    if rows:
        click.get_current_context().exit(_DIFFERENT)


@mapping.command(epilog="Example: muster mapping repair --dry-run")
@_options
@click.option("--dry-run", is_flag=True, help="Show what would change, without changing it.")
def repair(directory: Path, address: str | None, as_json: bool, dry_run: bool, **wanted: str | None) -> None:
    """Have the reconciler repair all differences now, and show what it did.

    A registration without an owner is removed if two checks, a second apart, agree. Filters limit what is shown, not
    what is repaired.
    """
    some = Filter(**wanted)
    if dry_run:
        left: Comparison = _call_reconciler(directory, address, "compare", _READ_S)
        rows = planned_rows(left.divergences, some)
    else:
        repaired: Repaired = _call_reconciler(directory, address, "repair", _REPAIR_S)
        left, rows = repaired.left, done_rows(repaired.done, some)
    aside = aside_rows(left.left_alone, some)
    if not rows and not aside and _is_unknown(directory, address, wanted):
        raise CliError(_no_node(_given(wanted)))
    if as_json:
        print_json({"dry_run": dry_run, "actions": rows, "left_alone": aside, **summary(left)})
        return
    if rows:
        print_table(_WRITES, [_cells(row, _WRITES) for row in rows])
    _say_left_alone(aside)
    print_text(f"{counted(len(rows), 'write')} {'would be' if dry_run else 'were'} done; {_size(left)}", err=True)
    if not dry_run and left.divergences:
        print_text(f"{counted(len(left.divergences), 'difference')} left; muster mapping check shows them", err=True)


def _given(wanted: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in wanted.items() if value is not None}


def _is_unknown(directory: Path, address: str | None, wanted: dict[str, str | None]) -> bool:
    """Return whether ZooKeeper has nothing that matches. If nothing differs, coordinators have nothing either."""
    return bool(_given(wanted)) and not node_rows(
        _call_reconciler(directory, address, "mapping", _READ_S), Filter(**wanted)
    )


def _no_node(given: dict[str, str]) -> str:
    words = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in given.items())
    return f"there is no node of {words}; see muster mapping list"


def _cells(row: dict[str, Any], columns: tuple[Column, ...]) -> list[Any]:
    values = (row.get(column.title.lower().replace(" ", "_")) for column in columns)
    return [",".join(value) if isinstance(value, list) else value for value in values]


def _size(found: Comparison) -> str:
    coordinators, held = counted(len(found.trusted), "Active coordinator"), counted(found.registrations, "registration")
    return f"{coordinators} with {held}, {counted(found.nodes, 'node')} in ZooKeeper"


def _say_left_alone(aside: list[dict[str, Any]]) -> None:
    for row in aside:
        print_text(f"left alone: {row['path']} ({row['why']})")


def _call_reconciler(directory: Path, address: str | None, method: str, timeout_s: float) -> Any:
    """Return the reconciler's response. Raises CliError if it does not respond, or fails."""
    with connected(directory, address):
        from muster.gateway import cluster

        try:
            return cluster.call_reconciler(method, timeout_s=timeout_s)
        except cluster.ClusterError as error:
            raise CliError(str(error)) from error
