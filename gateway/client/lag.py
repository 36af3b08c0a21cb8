"""How far a group is behind: from a gateway's HTTP API, or by Kafka's protocol, as on a real Kafka."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from itertools import groupby
from typing import TYPE_CHECKING, Any

from muster.gateway.client.errors import UnknownGroup, UnknownTopic
from muster.gateway.client.http import GatewayUrl, HttpError, get
from muster.gateway.client.kafka.offsets import committed, log_offsets
from muster.gateway.client.kafka.refusals import check
from muster.gateway.client.kafka.requests import LATEST, READ_UNCOMMITTED

if TYPE_CHECKING:
    from muster.gateway.client.kafka.brokers import Coordinator
    from muster.gateway.client.kafka.leaders import Leaders, TopicPartition
    from muster.gateway.client.security import Security

PATH = "/v1/groups/lag"
_HTTP_S = 10.0
_LIST_GROUPS = (16, 4)


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """Lag of a group in one partition."""

    topic: str
    partition: int
    committed: int | None
    """The committed offset; None if a member has the partition, and the group has committed nothing there."""
    end: int | None
    """The end of the log; None if that is unknown."""
    messages: int | None
    """Unread messages; None if either is unknown."""
    seconds: float | None
    """Age of the oldest unread one; 0 if there is none, None if it is unknown."""


@dataclass(frozen=True, slots=True)
class Lag:
    """Lag of a group."""

    messages: int
    """Unread messages of all partitions with a committed offset."""
    seconds: float | None
    """Age of the oldest unread record; 0 if there is none, None if it is unknown."""
    behind: int
    """Partitions with unread messages."""
    partitions: tuple[PartitionLag, ...]
    """By topic and partition."""


def lag_of(
    group: str, http: Iterable[str], security: Security | None, leaders: Leaders, coordinator: Coordinator
) -> Lag:
    """Return the group's lag, from a gateway if one responds over HTTP and lets the caller; else by the brokers.

    Raises UnknownGroup, NoResponse, Refused, LoginFailed.
    """
    for base in http:
        try:
            found = get(GatewayUrl(base), PATH, {"group": group}, _HTTP_S, security)
        except HttpError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                raise unknown(group) from error
            break
        except (OSError, HTTPException, ValueError):
            continue
        if found["lag"] is not None:
            return _from_json(found)
    return _by_kafka(group, leaders, coordinator)


def unknown(group: str) -> UnknownGroup:
    """Return the error for a group that does not exist."""
    return UnknownGroup(f"there is no group {group}: a group exists once it has members or has committed an offset")


def _from_json(found: Mapping[str, Any]) -> Lag:
    rows = tuple(
        PartitionLag(
            row["topic"],
            row["partition"],
            row["committed_offset"],
            row["end_offset"],
            None if row["lag"] is None else max(row["lag"], 0),
            row["lag_s"],
        )
        for row in found["partitions"]
    )
    return Lag(found["lag"], found["lag_s"], found["behind"], rows)


def _by_kafka(group: str, leaders: Leaders, coordinator: Coordinator) -> Lag:
    offsets = committed(coordinator, group, stable=False)
    if not offsets:
        _check_known(group, coordinator)
    ends = log_offsets(leaders, existing(leaders, offsets), LATEST, READ_UNCOMMITTED)
    rows = tuple(_row(key, found.offset, ends.get(key)) for key, found in sorted(offsets.items()))
    messages = sum(row.messages or 0 for row in rows)
    known = all(row.messages is not None for row in rows)
    return Lag(messages, 0.0 if known and not messages else None, sum(bool(row.messages) for row in rows), rows)


def _row(key: TopicPartition, committed: int, end: int | None) -> PartitionLag:
    messages = None if end is None else max(end - committed, 0)
    return PartitionLag(*key, committed, end, messages, 0.0 if messages == 0 else None)


def _check_known(group: str, coordinator: Coordinator) -> None:
    """Raise UnknownGroup if the coordinator knows no such group."""
    listed = coordinator.request(*_LIST_GROUPS, {"states_filter": []})
    check(listed, "groups cannot be listed")
    if group not in {each.group_id for each in listed.groups}:
        raise unknown(group)


def existing(leaders: Leaders, partitions: Iterable[TopicPartition]) -> Iterator[TopicPartition]:
    """Yield the partitions whose topic still exists."""
    for topic, of_topic in groupby(sorted(partitions), key=lambda each: each[0]):
        with contextlib.suppress(UnknownTopic):
            there = {*leaders.partitions(topic)}
            yield from ((topic, index) for _, index in of_topic if index in there)
