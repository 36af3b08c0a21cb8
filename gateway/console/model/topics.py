"""Topics, their partitions and readers, and records, as tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from muster.gateway.console.model import text
from muster.gateway.console.model.table import Column, Kind, Table

TOPIC_COLUMNS = (
    Column("topic", "Topic", Kind.NAME),
    Column("partitions", "Partitions", Kind.COUNT),
    Column("messages", "Messages", Kind.COUNT),
    Column("size_bytes", "Size", Kind.SIZE),
    Column("groups", "Groups", Kind.COUNT),
    Column("behind", "Behind", Kind.COUNT),
    Column("in_bytes_s", "In", Kind.RATE),
    Column("out_bytes_s", "Out", Kind.RATE),
)
PARTITION_COLUMNS = (
    Column("partition", "Partition", Kind.COUNT),
    Column("leader", "Leader"),
    Column("log", "Log"),
    Column("start_offset", "First offset", Kind.COUNT),
    Column("end_offset", "End offset", Kind.COUNT),
    Column("messages", "Messages", Kind.COUNT),
    Column("size_bytes", "Size", Kind.SIZE),
)
READER_COLUMNS = (
    Column("group", "Group", Kind.NAME),
    Column("state", "State"),
    Column("members", "Members", Kind.COUNT),
    Column("partitions", "Partitions", Kind.COUNT),
    Column("lag", "Lag", Kind.COUNT),
    Column("lag_s", "Lag, time", Kind.SECONDS),
)
RECORD_COLUMNS = (
    Column("offset", "Offset", Kind.COUNT),
    Column("key", "Key", Kind.NAME),
    Column("value", "Value", Kind.NAME),
    Column("timestamp_ms", "Time", Kind.TIME),
    Column("headers", "Headers", Kind.NAME),
    Column("size_bytes", "Size", Kind.SIZE),
)
PREVIEW_CHARS = 120
FORMATS = ("auto", "json", "text", "hex")


def topic_table(
    topics: Iterable[Mapping[str, Any]],
    in_rates: Mapping[str, float],
    out_rates: Mapping[str, float],
    *,
    query: str = "",
    with_internal: bool = False,
) -> Table:
    """Return the topics, by name, with what is produced to and sent from each per second."""
    wanted = query.strip().casefold()
    rows = [
        {
            **{column.name: each.get(column.name) for column in TOPIC_COLUMNS[:6]},
            "in_bytes_s": in_rates.get(each["topic"]),
            "out_bytes_s": out_rates.get(each["topic"]),
        }
        for each in topics
        if (with_internal or not each.get("internal")) and wanted in str(each["topic"]).casefold()
    ]
    return Table(TOPIC_COLUMNS, sorted(rows, key=lambda row: row["topic"]))


def partition_table(described: Mapping[str, Any]) -> Table:
    """Return the partitions of ``/v1/topics/describe``."""
    rows = [
        {**each, "leader": None if each.get("leader") is None else f"gateway-{each['leader']}"}
        for each in described.get("partitions") or ()
    ]
    return Table(PARTITION_COLUMNS, sorted(rows, key=lambda row: row["partition"]))


def reader_table(described: Mapping[str, Any]) -> Table:
    """Return the groups that read the topic, the furthest behind first."""
    rows = sorted(
        ({**each, "partitions": _number(each.get("partitions"))} for each in described.get("groups") or ()),
        key=lambda row: (-(row.get("lag_s") or 0), -(row.get("lag") or 0), row["group"]),
    )
    return Table(READER_COLUMNS, rows)


def _number(value: Any) -> int | None:
    return len(value) if isinstance(value, list) else value


class Shown(NamedTuple):
    """A key, value or header as text."""

    text: str
    kind: str
    """``null``, ``json``, ``text`` or ``hex``."""
    is_cut: bool = False


def shown(value: Mapping[str, Any] | None, form: str = "auto") -> Shown:
    """Return a value of the API in the wanted form, as far as it can be in that."""
    if value is None:
        return Shown("null", "null")
    is_cut = bool(value.get("cut"))
    if "text" in value:
        plain = str(value["text"])
        if form == "hex":
            return Shown(plain.encode().hex(" "), "hex", is_cut)
        if form in ("auto", "json") and not is_cut and (pretty := _pretty(plain)) is not None:
            return Shown(pretty, "json", is_cut)
        return Shown(plain, "text", is_cut)
    raw = str(value.get("hex") or "")
    if form == "text":
        return Shown(bytes.fromhex(raw).decode(errors="replace"), "text", is_cut)
    return Shown(" ".join(raw[index : index + 2] for index in range(0, len(raw), 2)), "hex", is_cut)


def _pretty(plain: str) -> str | None:
    if plain[:1] not in ("{", "["):
        return None
    try:
        return json.dumps(json.loads(plain), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None


def record_table(records: Sequence[Mapping[str, Any]], form: str = "auto") -> Table:
    """Return records with their values on one line each, cut for the table."""
    rows = [
        {
            "offset": each["offset"],
            "timestamp_ms": each.get("timestamp_ms"),
            "key": preview(each.get("key"), form),
            "value": preview(each.get("value"), form),
            "headers": ", ".join(f"{name}={preview(value, form)}" for name, value in each.get("headers") or ()),
            "size_bytes": each.get("size_bytes"),
        }
        for each in records
    ]
    return Table(RECORD_COLUMNS, rows)


def preview(value: Mapping[str, Any] | None, form: str = "auto") -> str:
    """Return a value on one line, cut."""
    if value is not None and "text" in value and form != "hex":
        line = " ".join(str(value["text"])[: PREVIEW_CHARS * 4].split())
    else:
        line = " ".join(shown(value, form).text[: PREVIEW_CHARS * 4].split())
    return line if len(line) <= PREVIEW_CHARS else f"{line[:PREVIEW_CHARS]}…"


def position(described: Mapping[str, Any]) -> str:
    """Return where a page of records is in its partition, in words."""
    records = described.get("records") or ()
    start, end = described.get("start_offset"), described.get("end_offset")
    whole = f"The partition has offsets {text.count(start)} to {text.count(end)}"
    if not records:
        return f"No records here. {whole}."
    return f"Records {text.count(records[0]['offset'])} to {text.count(records[-1]['offset'])}. {whole}."
