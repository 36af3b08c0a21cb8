"""``muster log replay``: the groups of one partition of ``__consumer_offsets``, as a coordinator loads them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from muster.actors.group.codec.records import CommittedOffset, UnknownKey, decode_key
from muster.actors.group.config import GroupConfig
from muster.actors.group.coordinator import Coordinator
from muster.actors.group.errors import CorruptRecord
from muster.actors.group.events import RecordsSkipped
from muster.actors.group.hard import TopicPartition
from muster.actors.group.state import Group
from muster.actors.group.types import GroupId, Record
from muster.actors.log.errors import LogError
from muster.actors.log.files import inspection
from muster.actors.log.format.records import Record as LogRecord
from muster.actors.log.format.records import read_records
from muster.actors.runtime import terminal
from muster.actors.runtime.narrow import Column, Kind
from muster.actors.runtime.words import counted
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.names import STORAGE_DIRECTORY
from muster.gateway.cli.output import print_json, print_table, print_text, with_wide
from muster.gateway.cli.storage import directory as storage
from muster.gateway.cli.storage.consumer_group_records import (
    consumer_group_as_json,
    consumer_group_row,
    consumer_member_rows,
)
from muster.gateway.client.groups import assignments
from muster.placement.mapping.nodes import host_text
from muster.placement.view import OFFSETS_TOPIC

_GROUPS = (
    Column("GROUP", Kind.NAME),
    "STATE",
    Column("TYPE", optional=True),
    Column("PROTOCOL", optional=True),
    Column("GENERATION", optional=True),
    Column("LEADER", Kind.ID, optional=True),
    "MEMBERS",
    "OFFSETS",
)
_MEMBERS = (
    Column("GROUP", Kind.NAME),
    Column("MEMBER", Kind.ID),
    Column("INSTANCE", Kind.NAME, optional=True),
    Column("CLIENT", Kind.NAME, optional=True),
    Column("HOST", optional=True),
    Column("SESSION (MS)", optional=True),
    Column("ASSIGNMENT", Kind.LIST, optional=True),
)
_OFFSETS = (
    Column("GROUP", Kind.NAME),
    Column("TOPIC", Kind.NAME),
    "PARTITION",
    "OFFSET",
    Column("LEADER EPOCH", optional=True),
    Column("METADATA", Kind.TEXT, optional=True),
)

_MADE_ANEW = (".index", ".snapshot")
"""Files that are rebuilt on opening if they are damaged."""


@dataclass(slots=True)
class _Log:
    """Content of a partition's files, only the last record of each key, as a coordinator loads it."""

    records: int = 0
    last: dict[bytes, LogRecord] = field(default_factory=dict)
    damage: list[str] = field(default_factory=list)
    """Damage that a coordinator would refuse to load, or would miss."""


@click.command(epilog="Example: muster log replay __consumer_offsets-7 --json")
@click.argument("what", metavar="DIR|TOPIC-PARTITION")
@click.option(
    "--storage",
    "directory",
    metavar="DIR",
    type=STORAGE_DIRECTORY,
    default=Path("muster-data"),
    help="Storage directory. Default ./muster-data.",
)
@with_wide
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def replay(what: str, directory: Path, as_json: bool) -> None:
    """Load a partition of __consumer_offsets as a group coordinator does, and show its groups.

    DIR may be a copy, also of a directory of Apache Kafka. Nothing is changed and nothing is connected to. Groups are
    as in a coordinator that has just loaded the log: Stable, or Empty if there are no members. A torn tail is passed
    over, as at a start. Damage and unreadable records are named, and the groups are shown without them; the exit code
    is then 1, since a coordinator would refuse to load that log.
    """
    path = _partition(directory, what)
    if storage.holder(directory) and path.is_relative_to(directory):
        print_text(f"muster runs on {directory}: the end of the log may look torn", err=True)
    log = _read(path)
    if log.records and not any(map(_is_of_a_group, log.last)):
        raise CliError(f"no record of {path} is of a group: it is no partition of {OFFSETS_TOPIC}")
    coordinator, notes = _loaded(log)
    if as_json:
        print_json(_as_json(path, log, coordinator, notes))
    else:
        _print(coordinator)
    if not log.records:
        print_text(f"{path} holds no records", err=True)
    for note in notes:
        print_text(note, err=True)
    for problem in log.damage:
        print_text(f"DAMAGE: {problem}", err=True)
    if log.damage:
        raise CliError(f"{counted(len(log.damage), 'problem')}; muster log verify and muster log dump show more")


def _is_of_a_group(key: bytes) -> bool:
    try:
        return not isinstance(decode_key(key), UnknownKey)
    except CorruptRecord:
        return False


def _partition(directory: Path, what: str) -> Path:
    """Return the partition's path. Raises CliError if it is no directory."""
    path = directory / "logs" / what
    path = path if path.is_dir() else Path(what)
    if not path.is_dir():
        raise CliError(f"{path} is no directory; name one of {OFFSETS_TOPIC}-<p>, or specify it with --storage")
    return path


def _read(path: Path) -> _Log:
    """Read the log. Raises CliError if there is none."""
    log = _Log()
    try:
        for segment, batch in inspection.counting_batches(path):
            try:
                records = [] if batch.header.is_control else list(read_records(batch.content, batch.header))
            except LogError as error:
                log.damage.append(f"{segment}: byte {batch.position}: {error}")
                continue
            log.records += len(records)
            log.last.update((record.key or b"", record) for record in records)
    except (OSError, LogError) as error:
        raise CliError(f"{path} cannot be read: {error}") from error
    for found in inspection.verify(path).findings:
        if found.is_damage and found.path.suffix not in _MADE_ANEW:
            log.damage.append(f"{found.path}: {found.what}")
    return log


def _loaded(log: _Log) -> tuple[Coordinator, list[str]]:
    """Return the core after all records that it can read, and remarks on the others."""
    core = Coordinator(partition=0, epoch=0, config=GroupConfig(), new_id=str)
    for key, record in log.last.items():
        try:
            core.replay(record.offset, Record(key, record.value), record.timestamp_ms)
        except CorruptRecord as error:
            log.damage.append(f"offset {record.offset}: {error}")
    events = core.loaded(time.time_ns() // 1_000_000).events
    skipped = [event for event in events if isinstance(event, RecordsSkipped)]
    return core, [
        f"{counted(event.count, 'record')} of type {event.key_type}, from offset {event.first_offset}: "
        "of groups that are not served"
        for event in skipped
    ]


def _print(coordinator: Coordinator) -> None:
    groups, consumers = coordinator.groups.values(), coordinator.consumer_groups.values()
    offsets = {
        each: coordinator.hard_state.offsets(each) for each in (*coordinator.groups, *coordinator.consumer_groups)
    }
    rows = [_group_row(group, len(offsets[group.id])) for group in groups]
    rows += [consumer_group_row(group, len(offsets[group.id])) for group in consumers]
    print_table(_GROUPS, rows, counted(len(rows), "group"))
    members = [row for group in groups for row in _member_rows(group)]
    members += [row for group in consumers for row in consumer_member_rows(group)]
    if members:
        terminal.line()
        print_table(_MEMBERS, members, counted(len(members), "member"))
    if committed := [row for group_id, held in offsets.items() for row in _offset_rows(group_id, held)]:
        terminal.line()
        print_table(_OFFSETS, committed, counted(len(committed), "offset"))


def _group_row(group: Group, offsets: int) -> tuple[Any, ...]:
    return (
        group.id,
        group.state.value,
        group.protocol_type or None,
        group.protocol,
        group.generation,
        group.leader,
        len(group.members),
        offsets,
    )


def _member_rows(group: Group) -> list[tuple[Any, ...]]:
    return [
        (
            group.id,
            stored.member_id,
            stored.group_instance_id,
            stored.client_id,
            host_text(stored.client_host),
            stored.session_timeout_ms,
            assignments.in_words(group.protocol_type, stored),
        )
        for stored in group.snapshot(group.assignments()).members
    ]


def _offset_rows(group_id: str, offsets: dict[TopicPartition, CommittedOffset]) -> list[tuple[Any, ...]]:
    return [
        (group_id, topic, partition, held.offset, held.leader_epoch, held.metadata or None)
        for (topic, partition), held in sorted(offsets.items())
    ]


def _as_json(path: Path, log: _Log, coordinator: Coordinator, notes: list[str]) -> dict[str, Any]:
    return {
        "path": str(path),
        "records": log.records,
        "groups": [
            *(_group_as_json(coordinator, group) for group in coordinator.groups.values()),
            *(
                consumer_group_as_json(group) | {"offsets": _offsets_as_json(coordinator, group.id)}
                for group in coordinator.consumer_groups.values()
            ),
        ],
        "notes": notes,
        "damage": log.damage,
    }


def _group_as_json(coordinator: Coordinator, group: Group) -> dict[str, Any]:
    return {
        "group": group.id,
        "state": group.state.value,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "generation": group.generation,
        "leader": group.leader,
        "members": [
            {
                "member_id": stored.member_id,
                "group_instance_id": stored.group_instance_id,
                "client_id": stored.client_id,
                "host": host_text(stored.client_host),
                "session_timeout_ms": stored.session_timeout_ms,
                "rebalance_timeout_ms": stored.rebalance_timeout_ms,
                "assignment": assignments.as_json(group.protocol_type, stored),
            }
            for stored in group.snapshot(group.assignments()).members
        ],
        "offsets": _offsets_as_json(coordinator, group.id),
    }


def _offsets_as_json(coordinator: Coordinator, group_id: GroupId) -> list[dict[str, Any]]:
    return [
        {
            "topic": topic,
            "partition": partition,
            "offset": held.offset,
            "leader_epoch": held.leader_epoch,
            "metadata": held.metadata,
            "commit_timestamp": held.commit_timestamp_ms,
            "expire_timestamp": held.expire_timestamp_ms,
        }
        for (topic, partition), held in sorted(coordinator.hard_state.offsets(group_id).items())
    ]
