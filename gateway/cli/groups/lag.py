"""``muster groups lag``: the lag of groups, from the gateways, again and again with ``--watch``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from muster.actors.runtime import rich_console, terminal
from muster.actors.runtime.narrow import Column, Kind
from muster.actors.runtime.words import counted
from muster.gateway.cli import http
from muster.gateway.cli.groups.known import unknown
from muster.gateway.cli.names import NAME
from muster.gateway.cli.numbers import Real, Whole
from muster.gateway.cli.output import is_wide, print_json, print_table, print_text, table, with_wide
from muster.gateway.cli.running import bootstrap_servers, by_http
from muster.gateway.lag.partitions import worst_first

PATH = "/v1/groups/lag"
_PAGE = 10_000
_OF_GROUPS = (Column("GROUP", Kind.NAME), "STATE", "MEMBERS", "BEHIND", "LAG", "LAG (S)", "NO COMMIT")
_OF_PARTITIONS = (
    Column("TOPIC", Kind.NAME),
    "PARTITION",
    Column("COMMITTED", optional=True),
    Column("END", optional=True),
    "LAG",
    "LAG (S)",
    Column("CLIENT ID", Kind.NAME, optional=True),
)
_Table = tuple[Sequence[str | Column], list[tuple[Any, ...]], str | None, list[str]]
"""Columns, rows, the total, and lines below."""


@click.command(
    short_help="Show how far groups are behind, the worst first.", epilog="Example: muster groups lag --watch"
)
@click.argument("group", type=NAME, required=False)
@by_http
@click.option("--limit", type=Whole(1, _PAGE), default=20, show_default=True, help="Show at most this many groups.")
@click.option(
    "--sort",
    type=click.Choice(("worst", "lag_s", "lag", "members", "group")),
    default="worst",
    show_default=True,
    help="Sort groups by the worst, by LAG (S), LAG or MEMBERS, the largest first, or by name.",
)
@click.option(
    "--watch",
    type=Real(0.2, 3600),
    is_flag=False,
    flag_value=2.0,
    metavar="[SECONDS]",
    help="Repeat every so many seconds, 2 by default, until Ctrl-C.",
)
@with_wide
@click.option("--json", "as_json", is_flag=True, help="Print JSON; with --watch, one object on each line.")
def lag(
    group: str | None, directory: Path, address: str | None, limit: int, sort: str, watch: float | None, as_json: bool
) -> None:
    """Show how far groups are behind, or each partition of the group GROUP.

    The worst come first: groups with the most messages in partitions without a commit, then those with the oldest
    unconsumed message.

    BEHIND counts the partitions with a lag. LAG is in messages, summed over partitions. LAG (S) is the age of the
    oldest unconsumed message in seconds, by its log's clock. NO COMMIT counts the partitions that members have, with
    messages, and that the group has committed no offset of. They are in no other number: whether their messages are
    unconsumed depends on the auto.offset.reset of its consumers.
    """

    def look() -> dict[str, Any]:
        if group is None:
            return http.get_json(directory, address, PATH, limit=str(limit), sort=sort)
        return of_group(directory, address, group)

    shown = _groups if group is None else _partitions
    if watch is not None:
        _watch(look, shown, watch, as_json=as_json)
    elif as_json:
        print_json(look())
    else:
        columns, rows, total, below = shown(look())
        print_table(columns, rows, total)
        for line in below:
            print_text(line, err=True)


def of_group(directory: Path, address: str | None, group: str) -> dict[str, Any]:
    """Return the lag of one group, as the gateway reports it. Raises CliError if there is no such group."""
    try:
        return http.get_json(directory, address, PATH, group=group)
    except http.HttpError as refused:
        if refused.status == HTTPStatus.NOT_FOUND:
            raise unknown(group, lambda: bootstrap_servers(None, directory, address)) from refused
        raise


def of_all_groups(directory: Path, address: str | None) -> tuple[list[dict[str, Any]], str | None]:
    """Return the summaries of all groups, the worst first, and in words what is missing.

    Raises NoHttpResponse or HttpError.
    """
    found: dict[str, dict[str, Any]] = {}
    for offset in count(0, _PAGE):  # by name: the lag may change between two pages
        page = http.get_json(directory, address, PATH, sort="group", limit=str(_PAGE), offset=str(offset))
        found |= {each["group"]: each for each in page["groups"]}
        if offset + _PAGE >= page["total"]:
            break
    return sorted(found.values(), key=worst_first), _missing(page)


def seconds(lag_s: float | None) -> str | None:
    """Format seconds: ``0``, ``0.25``, ``3712.5``."""
    return None if lag_s is None else f"{lag_s:.3f}".rstrip("0").rstrip(".")


def lag_cells(summary: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return LAG, LAG (S) and NO COMMIT of a group. The first is unknown without a committed offset."""
    lag = summary["lag"] if summary["partitions"] else None
    return lag, seconds(summary["lag_s"]), summary["without_commit"]


def _groups(response: dict[str, Any]) -> _Table:
    names = ("group", "state", "members", "behind")
    rows = [(*(each[name] for name in names), *lag_cells(each)) for each in response["groups"]]
    left = response["total"] - len(rows)
    below = [f"and {counted(left, 'more group')}: --limit, or muster groups list"] if left else []
    if not rows:
        below = ["there are no groups"]
    total = of_groups(response["groups"])
    return _OF_GROUPS, rows, total, [*below, *filter(None, [_missing(response)])]


def of_groups(summaries: Sequence[Mapping[str, Any]]) -> str | None:
    """Return their sums in words, of what is known; None if there are no groups."""
    if not summaries:
        return None
    members, lag, without = (
        [each[name] for each in summaries if each[name] is not None] for name in ("members", "lag", "without_commit")
    )
    sums = [counted(sum(members), "member")] * bool(members) + [f"lag {sum(lag)}"] * bool(lag)
    sums += [f"{counted(sum(without), 'partition')} without a commit"] * any(without)
    return ", ".join([counted(len(summaries), "group"), *sums])


def _partitions(response: dict[str, Any]) -> _Table:
    names = ("topic", "partition", "committed_offset", "end_offset", "lag")
    rows = [
        (*(each[name] for name in names), seconds(each["lag_s"]), each["client_id"]) for each in response["partitions"]
    ]
    total = f"group {response['group']} is {response['state']}"
    if response["lag"] is not None and any(each["committed_offset"] is not None for each in response["partitions"]):
        behind = f"{counted(response['lag'], 'message')} in {counted(response['behind'], 'partition')}"
        age = "" if response["lag_s"] is None else f", {seconds(response['lag_s'])} s"
        total += f", {behind} behind{age}"
    below = [total]
    if without := response["without_commit"]:
        logs, verb = ("its log", "is") if without == 1 else ("their logs", "are")
        messages = counted(response["messages_without_commit"], "message")
        below.append(f"{counted(without, 'partition')} without a commit ({messages} in {logs}) {verb} in no sum")
    return _OF_PARTITIONS, rows, None, below


def _missing(response: dict[str, Any]) -> str | None:
    silent = [*(f"offsets-{each}" for each in response["missing_partitions"]), *response["missing_actors"]]
    return f"some actors did not respond: {', '.join(dict.fromkeys(silent))}" if silent else None


def _watch(
    look: Callable[[], dict[str, Any]], shown: Callable[[dict[str, Any]], _Table], interval_s: float, *, as_json: bool
) -> None:
    """Repeat until Ctrl-C. A gateway that does not respond for a while is reported, and looked for again."""
    console = rich_console.console()
    with suppress(KeyboardInterrupt):
        if as_json or is_wide() or not rich_console.is_live(console):
            while True:
                _print_once(look, shown, as_json=as_json)
                time.sleep(interval_s)
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(_screen(look, shown), refresh=True)
                time.sleep(interval_s)


def _print_once(
    look: Callable[[], dict[str, Any]], shown: Callable[[dict[str, Any]], _Table], *, as_json: bool
) -> None:
    try:
        found = look()
    except http.NoHttpResponse as error:
        print_text(error.message, err=True)
        return
    if as_json:
        print_json(found, indent=None)
        return
    columns, rows, total, below = shown(found)
    print_table(columns, rows, total)
    for line in (*below, ""):
        terminal.line(line)


def _screen(look: Callable[[], dict[str, Any]], shown: Callable[[dict[str, Any]], _Table]) -> RenderableType:
    at = time.strftime("%H:%M:%S")
    try:
        columns, rows, total, below = shown(look())
    except http.NoHttpResponse as error:
        return Text(f"{at}  {error.message}")
    return Group(
        Text(f"{at}  Ctrl-C ends"), Text(), table(columns, rows), Text("\n".join(filter(None, (total, *below))))
    )
