"""``muster groups reset-offsets``: a plan first, then optionally its execution, and the undo."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from muster.actors.runtime import terminal
from muster.actors.runtime.narrow import Column, Kind
from muster.actors.runtime.words import counted
from muster.gateway.cli.client.cluster import admin, group_names
from muster.gateway.cli.client.gateways import Coordinator, Gateways
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.groups import reset_options
from muster.gateway.cli.names import NAME
from muster.gateway.cli.numbers import Whole
from muster.gateway.cli.output import print_json, print_table, print_text, with_wide
from muster.gateway.cli.running import bootstrap_servers, by_bootstrap
from muster.gateway.cli.suggestions import not_found, similar
from muster.gateway.cli.times import duration_ms
from muster.gateway.client.groups import offsets, reset, reset_plan
from muster.gateway.client.groups.members import Group, check_empty, described
from muster.gateway.client.groups.offsets import Committed, Partition
from muster.gateway.client.groups.reset import Plan, Target
from muster.gateway.client.groups.reset_plan import Change

T = TypeVar("T")
_NOTE = "NOTE"
_COLUMNS = (
    Column("TOPIC", Kind.NAME),
    "PARTITION",
    "OLD OFFSET",
    "NEW OFFSET",
    "READ AGAIN",
    "SKIPPED",
    Column(_NOTE, Kind.TEXT, optional=True),
)


def _parsed(parse: Callable[[Any], T]) -> Callable[[click.Context, click.Parameter, Any], T | None]:
    """Return a callback for an option: an invalid value is a usage error."""

    def callback(_: click.Context, __: click.Parameter, value: Any) -> T | None:
        if value is None:
            return None
        try:
            return parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return callback


@click.command(
    "reset-offsets",
    short_help="Move a group's committed offsets, or undo that.",
    epilog="Example: muster groups reset-offsets billing --topic invoices:0,1 --by-duration PT1H",
)
@click.argument("group", type=NAME)
@click.option("--to-earliest", is_flag=True, help="To the first message.")
@click.option("--to-latest", is_flag=True, help="To the end of the log.")
@click.option("--to-current", is_flag=True, help="To the committed offset; with --export, to save it.")
@click.option("--to-offset", type=Whole(0, reset_options.LARGEST_OFFSET), metavar="N", help="To offset N.")
@click.option("--shift-by", type=int, metavar="N", help="N messages forward, or back if N is negative.")
@click.option(
    "--to-datetime",
    type=NAME,
    metavar="TIME",
    callback=_parsed(reset_options.moment_ms),
    help="To the first message with this timestamp or a later one. ISO 8601; without a zone it is UTC.",
)
@click.option(
    "--by-duration",
    type=NAME,
    metavar="DURATION",
    callback=_parsed(duration_ms),
    help="To the first message within this duration before now: ISO 8601 (PT1H30M) or short (1h30m).",
)
@click.option(
    "--from-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="To the offsets in this file: CSV (topic,partition,offset) as kafka-consumer-groups exports it, or JSON.",
)
@click.option("--undo", is_flag=True, help="To the offsets before the last reset.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    type=NAME,
    metavar="TOPIC[:P,P,...]",
    callback=_parsed(reset.topics),
    help="All partitions of this topic, or the given ones. May be repeated.",
)
@click.option("--all-topics", is_flag=True, help="All partitions with a committed offset.")
@click.option("--execute", is_flag=True, help="Apply the plan. Without it, the plan is shown and nothing changes.")
@click.option("--dry-run", is_flag=True, help="Only show the plan (the default).")
@click.option("--export", type=click.Path(path_type=Path), metavar="FILE", help="Write the plan's offsets as CSV.")
@by_bootstrap
@with_wide
@click.option("--json", "as_json", is_flag=True, help="Print JSON, which --from-file accepts too.")
def reset_offsets(
    group: str,
    bootstrap_server: str | None,
    directory: Path,
    address: str | None,
    execute: bool,
    dry_run: bool,
    export: Path | None,
    as_json: bool,
    topics: reset.Wanted,
    all_topics: bool,
    **scenarios: Any,
) -> None:
    """Move the committed offsets of the group GROUP, which must have no members.

    Shows the old and the new offset of each partition, and how many messages would be read again or skipped. With
    --execute the offsets are changed; muster groups reset-offsets GROUP --undo --execute reverts that.
    """
    target = _target(group, scenarios)
    undo, listed = target is None, target is not None and target.listed is not None
    if (undo or listed) and (topics or all_topics):
        name = "--undo" if undo else "--from-file"
        raise click.UsageError(f"{name} already names the partitions; omit --topic and --all-topics.")
    if topics and all_topics:
        raise click.UsageError("--topic, --all-topics exclude each other.")
    if not (undo or listed or topics or all_topics):
        raise click.UsageError("Specify partitions: --topic or --all-topics.")
    if execute and dry_run:
        raise click.UsageError("--execute and --dry-run exclude each other.")
    bootstrap = bootstrap_servers(bootstrap_server, directory, address)
    client, coordinator_of = admin(bootstrap), partial(Coordinator, bootstrap)
    found = described(coordinator_of, group)
    reset.check_has_offsets(found)
    if execute:
        check_empty(group, found.members, "its offsets cannot be reset")
    with coordinator_of(group) as coordinator:
        committed = offsets.fetch(coordinator)
        if target is None:
            plan = reset.plan_undo(client, coordinator_of, found, committed)
        else:
            plan = _plan(client, found, target, topics, committed)
        if not found.exists:
            created = "was no group {0}: it was created" if execute else "is no group {0}: --execute would create it"
            plan.notes.append(f"there {created.format(group)}{similar(group, lambda: group_names(bootstrap))}")
        if export is not None:
            _write(export, plan.changes)
        if execute:
            reset.execute(coordinator, coordinator_of, plan, time.time_ns() // 1_000_000)
    _show(plan, executed=execute, as_json=as_json)
    if not execute:
        if found.members:
            members = counted(len(found.members), "member")
            print_text(f"group {group} has {members}: --execute would be refused", err=True)
        terminal.line("dry run: nothing was changed; use --execute to apply", err=True)


def _target(group: str, scenarios: dict[str, Any]) -> Target | None:
    """Return the requested target; None for --undo. Raises UsageError unless there is exactly one."""
    given = [name for name, value in scenarios.items() if value is not None and value is not False]
    if len(given) != 1:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given or scenarios)
        raise click.UsageError(f"{names} exclude each other." if given else f"Specify a target: one of {names}.")
    (name,) = given
    value = scenarios[name]
    match name:
        case "to_earliest":
            return reset.to_earliest()
        case "to_latest":
            return reset.to_latest()
        case "to_current":
            return reset.to_current()
        case "to_offset":
            return reset.to_offset(value)
        case "shift_by":
            return reset.shift_by(value)
        case "to_datetime":
            moment_ms, has_zone = value
            return reset.to_time(moment_ms, "" if has_zone else " (no zone was given: UTC)")
        case "by_duration":
            return reset.to_time(max(time.time_ns() // 1_000_000 - value, 0))
        case "from_file":
            return reset.to_listed(_read(value, group), str(value))
        case _:
            return None


def _plan(
    client: Gateways,
    group: Group,
    target: Target,
    topics: reset.Wanted,
    committed: Mapping[Partition, Committed],
) -> Plan:
    try:
        return reset.plan(client, group, target, topics, committed)
    except reset.UnknownResetTopic as error:
        topics_there = error.topics
        raise not_found("topic", error.topic, lambda: topics_there) from error


def _show(plan: Plan, *, executed: bool, as_json: bool) -> None:
    if as_json:
        print_json(plan.to_json(executed=executed))
        return
    print_text(f"group {plan.group}, {plan.words}")
    terminal.line()
    remarks = reset_plan.remarks(plan.changes)
    columns = _COLUMNS if remarks else _COLUMNS[:-1]
    rows = [tuple(change.row().values())[: len(columns)] for change in plan.changes]
    print_table(columns, rows, below={_NOTE: remarks})
    terminal.line()
    changed = sum(change.is_one for change in plan.changes)
    moved = "changed" if executed else "would be changed"
    print_text(f"{reset_plan.effect(plan.changes, executed=executed)}; {counted(changed, 'offset')} {moved}")
    for note in plan.notes:
        print_text(note)


def _read(path: Path, group: str) -> dict[Partition, int]:
    try:
        return reset_options.offsets_of(path.read_text(encoding="utf-8-sig"), group)
    except OSError as error:
        raise CliError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CliError(f"{path}: {error}") from error


def _write(path: Path, changes: Iterable[Change]) -> None:
    content = reset_options.to_csv({change.partition: change.after.offset for change in changes if change.after})
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise CliError(f"{path} cannot be written: {error.strerror}") from error
