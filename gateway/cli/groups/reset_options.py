"""Options of ``muster groups reset-offsets``: partitions, times, durations, files. Raises ValueError with the
problem."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from muster.gateway.client.groups.offsets import Partition

LARGEST_OFFSET = (1 << 63) - 1

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment_ms(text: str) -> tuple[int, bool]:
    """Parse an ISO 8601 date or time: ms since 1970, and whether it names its zone; without one it is UTC, as for
    Kafka."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is not an ISO 8601 time such as 2026-01-31T09:30:00+01:00") from None
    has_zone = moment.tzinfo is not None
    since = (moment if has_zone else moment.replace(tzinfo=UTC)) - _EPOCH
    milliseconds = since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000
    if milliseconds < 0:
        raise ValueError(f"{text!r} is before 1970")
    return milliseconds, has_zone


def offsets_of(text: str, group: str) -> dict[Partition, int]:
    """Read offsets of a group from a file: CSV as kafka-consumer-groups exports it, or JSON as this command prints it.

    CSV has topic,partition,offset per line; or group,topic,partition,offset, where other groups' lines are skipped.
    JSON is a list of objects with topic, partition and offset, or an object with such a list as ``offsets``.
    """
    rows = _json_rows(text) if text.lstrip()[:1] in ("[", "{") else _csv_rows(text, group)
    offsets: dict[Partition, int] = {}
    for place, topic, partition, offset in rows:
        key = (topic, _number(partition, "partition", place))
        if not topic:
            raise ValueError(f"{place}: the topic is missing")
        if key in offsets:
            raise ValueError(f"{place}: partition {key[1]} of {topic} comes twice")
        offsets[key] = _number(offset, "offset", place)
    if not offsets:
        raise ValueError(f"there are no offsets for group {group}")
    return offsets


def _csv_rows(text: str, group: str) -> Iterator[tuple[str, str, Any, Any]]:
    reader = csv.reader(io.StringIO(text), skipinitialspace=True, strict=True)
    try:
        for row in reader:
            fields = [field.strip() for field in row]
            if not any(fields) or fields[-3:] == ["topic", "partition", "offset"]:
                continue
            place = f"line {reader.line_num}"
            if len(fields) == 4:
                if fields[0] == group:
                    yield place, fields[1], fields[2], fields[3]
            elif len(fields) == 3:
                yield place, fields[0], fields[1], fields[2]
            else:
                raise ValueError(f"{place} is not topic,partition,offset")
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from error


def _json_rows(text: str) -> Iterator[tuple[str, str, Any, Any]]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it begins as JSON but is none: {error}") from error
    rows = content.get("offsets") if isinstance(content, dict) else content
    if not isinstance(rows, list):
        raise ValueError('JSON has to be a list, or an object with a list "offsets"')
    for number, row in enumerate(rows, 1):
        place = f"entry {number}"
        if not isinstance(row, Mapping) or not isinstance(row.get("topic"), str):
            raise ValueError(f"{place} is not an object with topic, partition and offset")
        yield place, row["topic"], row.get("partition"), row.get("offset")


def _number(value: Any, what: str, place: str) -> int:
    largest = LARGEST_OFFSET if what == "offset" else (1 << 31) - 1
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 19:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
        raise ValueError(f"{place}: {what} {value!r} is not a number from 0 on")
    return value


def to_csv(offsets: Mapping[Partition, int]) -> str:
    """Return the CSV that kafka-consumer-groups --export writes and --from-file reads."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([*key, offset] for key, offset in sorted(offsets.items()))
    return written.getvalue()
