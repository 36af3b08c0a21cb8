"""Renders a Kafka response as the text after ``->``: all fields but a throttle time of 0, with names for ids.

Member ids, coordinators and topic ids differ from server to server and get names. Lists that Kafka returns in the
order of a hash table are sorted (:data:`UNORDERED`). Nothing else is omitted or changed.
"""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any, Protocol
from uuid import UUID

from muster.actors.wire.kafka.codec import ErrorCode
from tests.group.driver import assignment, subscription

WIDTH = 112
UNORDERED = {
    ("JoinGroupResponse", "members"): "member_id",
    ("DescribedGroup", "members"): "member_id",
    ("ListGroupsResponse", "groups"): "group_id",
    ("DescribeGroupsResponse", "groups"): "group_id",
    ("DeleteGroupsResponse", "results"): "group_id",
    ("ConsumerGroupDescribeResponse", "groups"): "group_id",
    ("Assignment", "topic_partitions"): "topic_id",
    ("Member", "subscribed_topic_names"): "",
    ("TopicPartitions", "partitions"): "",
    ("ListTransactionsResponse", "transaction_states"): "transactional_id",
    ("ListTransactionsResponse", "unknown_state_filters"): "",
    ("TransactionState", "topics"): "topic",
    ("TopicData", "partitions"): "",
    ("AddPartitionsToTxnResponse", "results_by_topic_v3_and_below"): "name",
    ("AddPartitionsToTxnResponse", "results_by_transaction"): "transactional_id",
    ("AddPartitionsToTxnResult", "topic_results"): "name",
    ("AddPartitionsToTxnTopicResult", "results_by_partition"): "partition_index",
}
_WORD = re.compile(r"[A-Za-z_@][\w./@-]*$")
_NO_UUID = UUID(int=0)


class MadeNames(Protocol):
    """The scenario's names for what the world has generated."""

    def of_member(self, member_id: str) -> str: ...

    def of_group(self, name: str) -> str | None:
        """None: a group of another scenario."""

    def of_topic_id(self, topic_id: UUID) -> str: ...

    def of_producer_id(self, producer_id: int) -> str: ...


def render(entity: Any, names: MadeNames, *, sort_topics: bool) -> str:
    """Return the response's text.

    ``sort_topics`` if the request named no topics, so their order is the server's choice.
    """
    fields = _Rendering(names, sort_topics).fields(entity)
    error = [said for name, said in fields if name == "error_code"]
    return _wrap([*error, *(_prefixed(f"{name}=", said) for name, said in fields if name != "error_code")])


@dataclasses.dataclass(frozen=True, slots=True)
class _Block:
    """A list or map: on one line if it fits, else filled line by line."""

    opening: str
    items: tuple[_Text, ...]
    closing: str

    def flat(self) -> str:
        return self.opening + ", ".join(map(_flat, self.items)) + self.closing

    def lines(self, width: int) -> list[str]:
        if len(flat := self.flat()) <= width:
            return [flat]
        lines = [self.opening]
        for number, item in enumerate(self.items, start=1):
            comma = "," if number < len(self.items) else ""
            space = "" if lines[-1] == self.opening else " "
            flat = f"{space}{_flat(item)}{comma}"
            if len(lines[-1]) + len(flat) <= width:
                lines[-1] += flat
                continue
            first, *rest = item.lines(width - 2) if isinstance(item, _Block) else [item]
            if lines[-1] == self.opening:
                lines[-1] += first
            else:
                lines.append(f"  {first}")
            lines += [f"  {line}" for line in rest]
            lines[-1] += comma
        lines[-1] += self.closing
        return lines


_Text = str | _Block


def _flat(text: _Text) -> str:
    return text.flat() if isinstance(text, _Block) else text


def _prefixed(prefix: str, text: _Text) -> _Text:
    if isinstance(text, str):
        return prefix + text
    return _Block(prefix + text.opening, text.items, text.closing)


def _wrap(parts: list[_Text]) -> str:
    lines: list[str] = []
    for part in parts:
        flat = _flat(part)
        if lines and len(lines[-1]) + 1 + len(flat) <= WIDTH:
            lines[-1] += f" {flat}"
        else:
            lines += part.lines(WIDTH) if isinstance(part, _Block) else [part]
    return "\n".join(lines)


class _Rendering:
    def __init__(self, names: MadeNames, sort_topics: bool) -> None:
        self._names = names
        self._sort_topics = sort_topics

    def fields(self, entity: Any) -> list[tuple[str, _Text]]:
        kind = type(entity).__name__
        return [
            (each.name, self._field(entity, kind, each.name, value))
            for each in dataclasses.fields(entity)
            if (value := getattr(entity, each.name)) or each.name != "throttle_time"
        ]

    def _field(self, entity: Any, kind: str, name: str, value: Any) -> _Text:
        if isinstance(value, tuple):
            return _Block("[", tuple(self._items(kind, name, value)), "]")
        if isinstance(value, bytes):
            return _bytes(name, value)
        if name in ("node_id", "host", "port") and kind in ("FindCoordinatorResponse", "Coordinator"):
            return _place(entity, name, value)
        if name == "producer_id" and value >= 0 and not getattr(entity, "error_code", 0):
            return self._names.of_producer_id(value)
        if kind == "WritableTxnMarkerPartitionResult" and name == "partition_index":
            return "<offsets partition>"
        if name in ("transaction_start_time", "log_append_time"):
            return {0: "0", -1: "none", None: "null"}.get(value, "<time>")
        if name in ("group_id", "key", "transactional_id") and isinstance(value, str):
            return _text(self._names.of_group(value) or value)
        return self._value(value)

    def _items(self, kind: str, name: str, values: tuple[Any, ...]) -> list[_Text]:
        if kind == "ListGroupsResponse":
            values = tuple(each for each in values if self._names.of_group(each.group_id))
        if (kind, name) == ("ListTransactionsResponse", "transaction_states"):
            values = tuple(each for each in values if self._names.of_group(each.transactional_id))
        rendered = [self._value(each) for each in values]
        if (kind, name) in UNORDERED or (self._sort_topics and name in ("topics", "partitions")):
            rendered.sort(key=_flat)
        return rendered

    def _value(self, value: Any) -> _Text:
        if dataclasses.is_dataclass(value):
            return _Block("{", tuple(_prefixed(f"{name}: ", said) for name, said in self.fields(value)), "}")
        if isinstance(value, ErrorCode):
            return value.name.upper()
        if isinstance(value, bool) or value is None:
            return {True: "true", False: "false", None: "null"}[value]
        if isinstance(value, int):
            return str(value)
        if isinstance(value, UUID):
            return f"id({'' if value == _NO_UUID else self._names.of_topic_id(value)})"
        return _text(self._names.of_member(value))


def _place(entity: Any, name: str, value: Any) -> str:
    """Return a coordinator's node id, host and port: a name if there is a coordinator, else the value as it is."""
    found = entity.error_code is ErrorCode.none
    return f"<{name}>" if found and value not in (-1, "") else _text(value) if isinstance(value, str) else str(value)


def _text(value: str) -> str:
    if _is_padding(value):
        return f"units({len(value)})"
    return value if _WORD.match(value) and value not in ("null", "true", "false") else json.dumps(value)


def _is_padding(text: str) -> bool:
    return len(text) > WIDTH and not text.strip("x")


def _bytes(name: str, data: bytes) -> str:
    """Bytes as the scenario language writes them: decoded by field, as text, or in hexadecimal digits."""
    readable = _assignment(data) if name.endswith("assignment") else _subscription(data)
    if readable is not None:
        return readable
    if all(32 <= byte < 127 for byte in data):
        return _text(text) if _is_padding(text := data.decode()) else json.dumps(text)
    return f"bytes({data.hex()})"


def _subscription(data: bytes) -> str | None:
    topics = _strings(data)
    return f"subscription({' '.join(topics)})" if topics is not None and subscription(*topics) == data else None


def _strings(data: bytes) -> list[str] | None:
    """Return the topics of ConsumerProtocolSubscription v0; None for other data."""
    count, at, found = int.from_bytes(data[2:6], "big"), 6, []
    if count > len(data):
        return None
    for _ in range(count):
        size = int.from_bytes(data[at : at + 2], "big")
        found.append(data[at + 2 : at + 2 + size].decode(errors="replace"))
        at += 2 + size
    return found if data else None


def _assignment(data: bytes) -> str | None:
    """ConsumerProtocolAssignment v0 with one partition per entry, as scenarios create it."""
    count, at, found = int.from_bytes(data[2:6], "big"), 6, []
    if not data or count > len(data):
        return None
    for _ in range(count):
        size = int.from_bytes(data[at : at + 2], "big")
        topic = data[at + 2 : at + 2 + size].decode(errors="replace")
        at += 2 + size + 4
        found.append((topic, int.from_bytes(data[at : at + 4], "big")))
        at += 4
    if assignment(*found) != data:
        return None
    return f"assignment({' '.join(f'{topic}/{index}' for topic, index in found)})"
