"""``muster groups reset-offsets``: a plan first, then optionally its execution, and the undo."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from muster.actors.runtime import terminal
from muster.actors.runtime.narrow import Column, Kind
from muster.gateway.cli.client.cluster import admin, group_names
from muster.gateway.cli.client.gateways import Coordinator, Gateways
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.groups import offsets, reset_options, reset_plan, reset_undo
from muster.gateway.cli.groups.assignments import CONSUMER
from muster.gateway.cli.groups.members import Group, check_empty, described
from muster.gateway.cli.groups.offsets import Committed, Partition, name_of
from muster.gateway.cli.groups.reset_plan import Bounds, Change, Choice
from muster.gateway.cli.names import NAME
from muster.gateway.cli.numbers import Whole
from muster.gateway.cli.output import counted, print_json, print_table, print_text, with_wide
from muster.gateway.cli.running import bootstrap_servers, by_bootstrap
from muster.gateway.cli.suggestions import not_found, similar
from muster.gateway.cli.times import duration_ms
from muster.gateway.client.kafka.requests import EARLIEST, LATEST, list_offsets, metadata

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


@dataclass(frozen=True, slots=True)
class _Target:
    """Target in words, and its offset in a partition once its log can be queried."""

    words: str
    choice: Callable[[Gateways, Collection[Partition]], Choice]
    listed: Mapping[Partition, int] | None = None
    """Partitions and offsets of --from-file."""


@dataclass(frozen=True, slots=True)
class _Plan:
    group: str
    state: str
    words: str
    changes: list[Change]
    notes: list[str]


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
    callback=_parsed(reset_options.topics),
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
    topics: reset_options.Wanted,
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
    client = admin(bootstrap)
    found = described(bootstrap, group)
    _check_has_offsets(found)
    if execute:
        check_empty(group, found.members, "its offsets cannot be reset")
    with Coordinator(bootstrap, group) as coordinator:
        committed = offsets.fetch(coordinator)
        if target is None:
            plan = _undo(client, bootstrap, group, found.state, committed)
        else:
            plan = _plan(client, group, found.state, target, topics, committed)
        if not found.exists:
            created = "was no group {0}: it was created" if execute else "is no group {0}: --execute would create it"
            plan.notes.append(f"there {created.format(group)}{similar(group, lambda: group_names(bootstrap))}")
        if export is not None:
            _write(export, plan.changes)
        if execute:
            _execute(coordinator, bootstrap, plan, is_undo=undo)
    _show(plan, executed=execute, as_json=as_json)
    if not execute:
        if found.members:
            members = counted(len(found.members), "member")
            print_text(f"group {group} has {members}: --execute would be refused", err=True)
        terminal.line("dry run: nothing was changed; use --execute to apply", err=True)


def _check_has_offsets(group: Group) -> None:
    """Raise CliError for a group whose members are no consumers: they keep their positions elsewhere."""
    if group.protocol_type not in ("", CONSUMER):
        raise CliError(f"group {group.name} has protocol type {group.protocol_type}: only consumer groups have offsets")


def _target(group: str, scenarios: dict[str, Any]) -> _Target | None:
    """Return the requested target; None for --undo. Raises UsageError unless there is exactly one."""
    given = [name for name, value in scenarios.items() if value is not None and value is not False]
    if len(given) != 1:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given or scenarios)
        raise click.UsageError(f"{names} exclude each other." if given else f"Specify a target: one of {names}.")
    (name,) = given
    value = scenarios[name]
    match name:
        case "to_earliest":
            return _Target("to the earliest offset", lambda _, __: reset_plan.to_earliest)
        case "to_latest":
            return _Target("to the end", lambda _, __: reset_plan.to_latest)
        case "to_current":
            return _Target("to what is committed", lambda _, __: reset_plan.to_current)
        case "to_offset":
            return _Target(f"to offset {value}", lambda _, __: reset_plan.to_offset(value))
        case "shift_by":
            return _Target(f"by {value:+d} messages", lambda _, __: reset_plan.shift_by(value))
        case "to_datetime":
            moment_ms, has_zone = value
            return _to_time(moment_ms, "" if has_zone else " (no zone was given: UTC)")
        case "by_duration":
            return _to_time(max(time.time_ns() // 1_000_000 - value, 0), "")
        case "from_file":
            listed = _read(value, group)
            return _Target(f"to the offsets in {value}", lambda _, __: reset_plan.to_listed(listed), listed)
        case _:
            return None


def _to_time(moment_ms: int, remark: str) -> _Target:
    def choice(client: Gateways, partitions: Collection[Partition]) -> Choice:
        found = list_offsets(client, partitions, max(moment_ms, 0))
        return reset_plan.to_time({key: offset if offset >= 0 else None for key, offset in found.items()})

    return _Target(f"to the first message of {_iso(moment_ms)} or later{remark}", choice)


def _plan(
    client: Gateways,
    group: str,
    state: str,
    target: _Target,
    topics: reset_options.Wanted,
    committed: Mapping[Partition, Committed],
) -> _Plan:
    there, notes = _partition_counts(client), []
    if target.listed is not None:
        wanted = list(target.listed)
    elif topics:
        wanted = [
            (topic, partition)
            for topic, listed in topics.items()
            for partition in (range(there.get(topic, 0)) if listed is None else listed)
        ]
        if missing := [topic for topic in topics if topic not in there]:
            raise not_found("topic", missing[0], lambda: there)
    else:
        wanted = [key for key in committed if _is_there(there, key)]
        if gone := sorted(set(committed) - set(wanted)):
            notes.append(f"unchanged, because the topics no longer exist: {reset_plan.named(gone)}")
        if not wanted:
            raise CliError(f"group {group} has no committed offsets; use --topic instead of --all-topics")
    if unknown := sorted(key for key in wanted if not _is_there(there, key)):
        raise CliError(f"there is no partition {reset_plan.named(unknown)}")
    choice = target.choice(client, wanted)
    try:
        changes = reset_plan.plan(choice, wanted, committed, _bounds(client, wanted))
    except reset_plan.CannotReset as error:
        raise CliError(f"{error}{reset_plan.without(wanted, committed)}") from error
    return _Plan(group, state, target.words, changes, notes)


def _undo(client: Gateways, bootstrap: str, group: str, state: str, committed: Mapping[Partition, Committed]) -> _Plan:
    undo = reset_undo.last(bootstrap, group)
    if undo is None:
        raise CliError(f"group {group} has no reset to undo")
    there = _partition_counts(client)
    wanted = [key for key in undo.before if _is_there(there, key)]
    gone = sorted(set(undo.before) - set(wanted))
    words = f"to what was committed before the reset of {_iso(undo.reset_at_ms)}"
    notes = [f"skipped, because the topics no longer exist: {reset_plan.named(gone)}"] if gone else []
    changes = reset_plan.restoration(undo.before, committed, _bounds(client, wanted))
    return _Plan(group, state, words, changes, notes)


def _execute(coordinator: Coordinator, bootstrap: str, plan: _Plan, *, is_undo: bool) -> None:
    """Make the changes; save what they remove first. CliError if not all could be made."""
    changes = [change for change in plan.changes if change.is_one]
    if changes and not is_undo and not reset_undo.keep(bootstrap, plan.group, changes, time.time_ns() // 1_000_000):
        plan.notes.append(
            "the metadata of some offsets is too long to be saved: --undo restores those offsets without it"
        )
    set_to = {change.partition: change.after for change in changes if change.after is not None}
    failed = offsets.commit(coordinator, set_to)
    if dropped := [change.partition for change in changes if change.after is None]:
        failed |= offsets.delete(coordinator, dropped)
    if failed:
        partition, error = next(iter(failed.items()))
        back = "" if is_undo or len(failed) == len(changes) else "; the others were; --undo reverts them"
        reason = (
            "a member joined the group in the meantime" if error.name == "unknown_member_id" else error.name.upper()
        )
        raise CliError(
            f"{len(failed)} of {len(changes)} offsets could not be reset: {name_of(partition)} {reason}{back}"
        )
    if is_undo:
        reset_undo.forget(bootstrap, plan.group)


def _show(plan: _Plan, *, executed: bool, as_json: bool) -> None:
    read_again, skipped = reset_plan.totals(plan.changes)
    if as_json:
        print_json(
            {
                "group": plan.group,
                "state": plan.state,
                "target": plan.words,
                "executed": executed,
                "offsets": [change.row() for change in plan.changes],
                "read_again": read_again,
                "skipped": skipped,
                "notes": plan.notes,
            }
        )
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


def _partition_counts(client: Gateways) -> dict[str, int]:
    return {name: len(found) for name, found in metadata(client).topics.items()}


def _is_there(counts: Mapping[str, int], partition: Partition) -> bool:
    return partition[1] < counts.get(partition[0], 0)


def _bounds(client: Gateways, partitions: Collection[Partition]) -> dict[Partition, Bounds]:
    earliest, latest = (list_offsets(client, partitions, at) for at in (EARLIEST, LATEST))
    return {key: Bounds(earliest[key], latest[key]) for key in earliest}


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


def _iso(moment_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{moment_ms} ms since 1970"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
