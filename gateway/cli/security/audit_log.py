"""``muster audit-log``: changes and their principals, from the table ``administration``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from muster.actors.runtime.narrow import ONLY_ALIKE, Column, Kind
from muster.actors.runtime.words import counted
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.names import NAME, STORAGE_DIRECTORY
from muster.gateway.cli.output import is_folded, print_json, print_table, with_wide
from muster.gateway.cli.times import Moment, utc

_COLUMNS = (
    "TIME (UTC)",
    Column("GATEWAY", optional=4),
    Column("PRINCIPAL", Kind.NAME, ONLY_ALIKE),
    Column("HOST", optional=2),
    Column("CLIENT-ID", Kind.NAME, optional=5),
    Column("API", Kind.CONSTANT),
    Column("TYPE", optional=1),
    Column("RESOURCE", Kind.NAME),
    Column("ERROR", Kind.CONSTANT, ONLY_ALIKE),
    Column("TIMES", optional=3),
    Column("DETAIL", Kind.TEXT, optional=6),
)
_FIELDS = ("gateway", "principal", "host", "client_id", "api", "resource_type", "resource", "error", "times", "detail")


@click.command(epilog="Example: muster audit-log --since -1d --refused")
@click.option(
    "--storage",
    "directory",
    metavar="DIR",
    type=STORAGE_DIRECTORY,
    default=Path("muster-data"),
    help="Storage directory. Default ./muster-data.",
)
@click.option("--since", type=Moment(), default="-1d", metavar="TIME", help="Start of the time range. Default -1d.")
@click.option("--principal", type=NAME, metavar="TYPE:NAME", help="Show only changes by this principal.")
@click.option("--resource", type=NAME, metavar="NAME", help="Show only changes to this topic, group or user.")
@click.option("--refused", is_flag=True, help="Show only attempts that failed.")
@with_wide
@click.option("--json", "as_json", is_flag=True, help="Print JSON; times in ms since the epoch.")
def audit_log(
    directory: Path, since: datetime, principal: str | None, resource: str | None, refused: bool, as_json: bool
) -> None:
    """Show who changed topics, configs, offsets, groups, ACLs, quotas, users and faults, or tried to.

    Gateways write rows every metrics.events.flush.ms. Further attempts of one kind in a minute are one row (TIMES).
    """
    from muster.actors.object_storage.store import ObjectStorageError
    from muster.actors.tables.reading import TableDamaged, place_of, read
    from muster.actors.tables.schemas.administration import ADMINISTRATION

    if not directory.is_dir():
        raise CliError(f"there is no storage directory {directory}; name one with --storage")
    try:
        rows = read(place_of(directory), ADMINISTRATION, round(since.timestamp() * 1000)).sort_by("ts").to_pylist()
    except (TableDamaged, ObjectStorageError) as error:
        raise CliError(str(error)) from error
    found = [
        row
        for row in rows
        if principal in (None, row["principal"])
        and resource in (None, row["resource"])
        and not (refused and _is_done(row["error"]))
    ]
    if as_json:
        print_json([{**row, "ts": round(row["ts"].timestamp() * 1000)} for row in found])
    else:
        rows = [cells(row) for row in found]
        if is_folded(_COLUMNS, rows):
            rows = [cells(row, narrow=True) for row in found]
        print_table(_COLUMNS, rows, counted(len(found), "row"))


def cells(row: Mapping[str, Any], *, narrow: bool = False) -> tuple[Any, ...]:
    """Return the cells of a change; ``narrow`` leaves out the year, and the type of a user."""
    principal = row["principal"].removeprefix("User:") if narrow else row["principal"]
    values = {**row, "principal": principal}
    return (utc(round(row["ts"].timestamp() * 1000), narrow=narrow), *(values[name] for name in _FIELDS))


def _is_done(error: str) -> bool:
    """Return whether it is Kafka's NONE, or a status of HTTP that is no error."""
    return error == "NONE" or error.startswith("2")
