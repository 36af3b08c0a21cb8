"""``muster log dump``: the batches and records of a partition or of one segment file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from muster.actors.log.errors import LogError
from muster.actors.log.files import inspection
from muster.actors.log.files.inspection import Batch
from muster.actors.log.format.batch import BatchHeader
from muster.actors.log.format.control import read_control
from muster.actors.log.format.records import Record, read_records
from muster.actors.runtime import terminal
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.names import STORAGE_DIRECTORY
from muster.gateway.cli.numbers import Whole
from muster.gateway.cli.output import bytes_as_json, print_json
from muster.gateway.cli.storage.offsets_records import decoded, in_words
from muster.gateway.cli.times import utc
from muster.placement.view import OFFSETS_TOPIC

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_NO_PRODUCER = -1


class _Found(NamedTuple):
    segment: Path
    batch: Batch
    records: list[Record]
    damage: str | None


@click.command(epilog="Example: muster log dump __consumer_offsets-7 --max 20")
@click.argument("what", metavar="PATH|TOPIC-PARTITION")
@click.option(
    "--storage",
    "directory",
    metavar="DIR",
    type=STORAGE_DIRECTORY,
    default=Path("muster-data"),
    help="Storage directory. Default ./muster-data.",
)
@click.option("--offset", type=Whole(0), default=0, help="Start with the record at this offset.")
@click.option("--max", "limit", type=Whole(1), help="Show at most this many records.")
@click.option(
    "--format",
    "style",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Print text, or a JSON object per batch on each line.",
)
@click.option("--no-decode", is_flag=True, help=f"Show keys and values of {OFFSETS_TOPIC} as bytes, too.")
def dump(what: str, directory: Path, offset: int, limit: int | None, style: str, no_decode: bool) -> None:
    """Show the batches and records of a partition or of one segment file, including segments that were set aside.

    Keys and values of __consumer_offsets are decoded: which offset was committed, who was in a group. A damaged batch
    is reported and skipped; the exit code is then 1.
    """
    path = directory / "logs" / what
    path = path if path.is_dir() else Path(what)
    is_offsets = not no_decode and any(part.startswith(f"{OFFSETS_TOPIC}-") for part in path.absolute().parts)
    show: Callable[[_Found, bool], None] = _as_json if style == "json" else _as_text
    damaged = shown = batches = 0
    for found in _read(path, offset):
        if limit is not None:
            found = found._replace(records=found.records[: limit - shown])
        show(found, is_offsets)
        batches += 1
        damaged += found.damage is not None
        shown += len(found.records)
        if limit is not None and shown >= limit:
            break
    if not batches:
        _say_that_nothing_is_there(path, offset)
    if damaged:
        raise CliError(f"{damaged} damaged; see muster log verify")


def _read(path: Path, offset: int) -> Iterator[_Found]:
    """Yield the batches from the offset on. Raises CliError if there is no such log."""
    for segment in _segments(path):
        end = 0
        for batch in inspection.read_batches(segment):
            end = batch.position + batch.header.size_bytes
            if batch.header.next_offset <= offset:
                continue
            records, damage = _records(batch)
            yield _Found(segment, batch, [record for record in records if record.offset >= offset], damage)
        if end < segment.stat().st_size:
            terminal.line(f"{segment.name}: no batch begins at byte {end}", err=True)


def _say_that_nothing_is_there(path: Path, offset: int) -> None:
    """Raise CliError for an offset beyond the log, and for a path that is no log; an empty log is no error."""
    segments = _segments(path)
    ends = [batch.header.next_offset for segment in segments for batch in inspection.read_batches(segment)]
    if ends:
        raise CliError(
            f"there is nothing at offset {offset} or after it: the last record of {path} is at {max(ends) - 1}"
        )
    if any(segment.stat().st_size for segment in segments):
        raise CliError(f"{path} is not a segment file, or is damaged from the start")
    if offset:
        raise CliError(f"there is nothing at offset {offset} or after it: {path} holds no batch")
    terminal.line(f"{path} holds no batch", err=True)


def _segments(path: Path) -> list[Path]:
    try:
        if path.is_file():
            return [path]
        if path.is_dir():
            return inspection.segment_files(path)
    except (OSError, LogError) as error:
        raise CliError(f"{path} cannot be read: {error}") from error
    raise CliError(f"{path} is neither a partition's directory nor a segment file; --storage says where partitions are")


def _records(batch: Batch) -> tuple[list[Record], str | None]:
    if batch.damage is not None:
        return [], batch.damage
    try:
        return list(read_records(batch.content, batch.header)), None
    except LogError as error:
        return [], str(error)


def _as_text(found: _Found, is_offsets: bool) -> None:
    header = found.batch.header
    producer = ""
    if header.producer_id != _NO_PRODUCER:
        producer = f", producer {header.producer_id} epoch {header.producer_epoch} sequence {header.base_sequence}"
    if header.is_transactional:
        producer += ", transactional"
    terminal.line(
        f"batch {header.base_offset}-{header.last_offset}: {found.segment.name} at byte {found.batch.position}, "
        f"{header.size_bytes} bytes, {_codec(header)}, leader epoch {header.partition_leader_epoch}, "
        f"{_time_type(header)}{producer}"
    )
    if found.damage is not None:
        terminal.line(f"  DAMAGE: {found.damage}")
    for record in found.records:
        said = _control(found) or (in_words(record.key, record.value) if is_offsets else None)
        if said is None:
            said = f"{_text(record.key)} -> {_text(record.value)}"
            said += "".join(f" [{_text(key)}={_text(value)}]" for key, value in record.headers)
        terminal.line(f"  {record.offset}  {_time(record.timestamp_ms)}  {said}")


def _control(found: _Found) -> str | None:
    """Return the meaning of a control batch; None for any other, or one of an unknown type."""
    end = read_control(found.batch.content, found.batch.header) if found.batch.header.is_control else None
    return f"{'COMMIT' if end.commit else 'ABORT'} of coordinator epoch {end.coordinator_epoch}" if end else None


def _as_json(found: _Found, is_offsets: bool) -> None:
    header = found.batch.header
    line = {
        "segment": found.segment.name,
        "position": found.batch.position,
        "size_bytes": header.size_bytes,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "leader_epoch": header.partition_leader_epoch,
        "codec": _codec(header),
        "timestamp_type": _time_type(header),
        "max_timestamp": header.max_timestamp_ms,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "control": header.is_control,
        "transactional": header.is_transactional,
        "damage": found.damage,
        "records": [_record_as_json(record, is_offsets and not header.is_control) for record in found.records],
    }
    print_json(line, indent=None)


def _record_as_json(record: Record, is_offsets: bool) -> dict[str, Any]:
    said = decoded(record.key, record.value) if is_offsets else None
    shown = {"key": bytes_as_json(record.key), "value": bytes_as_json(record.value)} if said is None else said
    headers = [[bytes_as_json(key), bytes_as_json(value)] for key, value in record.headers]
    return {"offset": record.offset, "timestamp": record.timestamp_ms, **shown, "headers": headers}


def _text(data: bytes | None) -> str:
    if data is None:
        return "null"
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"


def _codec(header: BatchHeader) -> str:
    return _CODECS[header.codec] if header.codec < len(_CODECS) else f"codec {header.codec}"


def _time_type(header: BatchHeader) -> str:
    return "LogAppendTime" if header.has_log_append_time else "CreateTime"


def _time(timestamp_ms: int) -> str:
    try:
        return utc(timestamp_ms, millis=True)
    except OverflowError:
        return str(timestamp_ms)
