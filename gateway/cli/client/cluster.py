"""Topics, offsets and groups of a cluster, for more than one command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.cli.client.gateways import Gateways, NoResponse
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.suggestions import not_found
from muster.placement.host_port import host_port
from muster.placement.view import UNDO_PREFIX

METADATA, LIST_OFFSETS, LIST_GROUPS = (3, 12), (2, 7), (16, 5)
EARLIEST, LATEST = -2, -1
"""In place of a time, in ListOffsets."""
NO_LEADER_EPOCH, NO_REPLICA, READ_UNCOMMITTED, READ_COMMITTED = -1, -1, 0, 1
_REACH_S, _MIN_EACH_S = 8.0, 1.0
"""Time in which a gateway must respond first, and what each address has of it at least."""


class Refused(CliError):
    """A request was carried out with an error of Kafka's."""

    def __init__(self, what: str, error: ErrorCode, message: str | None) -> None:
        super().__init__(f"{what}: {text_of(error, message)}" if what else text_of(error, message))
        self.error = error


def text_of(error: ErrorCode, message: str | None) -> str:
    """Return Kafka's name of the error, and the message of the response if there is one."""
    return f"{error.name.upper()} {message}" if message else error.name.upper()


def check(result: Any, what: str) -> None:
    """Raise Refused, beginning with ``what``, if the result in a response has an error code."""
    if result.error_code is not ErrorCode.none:
        raise Refused(what, result.error_code, getattr(result, "error_message", None))


@dataclass(frozen=True, slots=True)
class Cluster:
    """Metadata."""

    gateways: Mapping[int, str]
    """``HOST:PORT`` of each, by id."""
    topics: Mapping[str, Mapping[int, int]]
    """Leaders of the partitions, by topic and index."""


def admin(bootstrap: str, reach_s: float = _REACH_S) -> Gateways:
    """Return a client of these gateways, until the command ends.

    Raises CliError if none of them responds within ``reach_s``, which they share, or a second for each.
    """
    client = Gateways(bootstrap)
    if (context := click.get_current_context(silent=True)) is not None:
        context.call_on_close(client.close)
    try:
        client.request(*METADATA, _of_topics([]), timeout_s=reach_s, each_s=max(_MIN_EACH_S, reach_s / client.count))
    except NoResponse as error:
        raise CliError(
            f"no gateway responds at {bootstrap} ({error.why}); see muster status; "
            "where clients need a login or TLS, use --command-config FILE"
        ) from error
    return client


def metadata(client: Gateways) -> Cluster:
    """Return the gateways and all topics. Raises CliError."""
    response = client.request(*METADATA, _of_topics(None))
    return Cluster(
        {each.node_id: host_port(each.host, each.port) for each in response.brokers},
        {
            topic.name: {each.partition_index: each.leader_id for each in topic.partitions}
            for topic in response.topics
            if topic.error_code is ErrorCode.none
        },
    )


def count_partitions(client: Gateways, topic: str) -> int:
    """Return the number of the topic's partitions; create it if ``auto.create.topics.enable`` is true.

    Raises Refused, whose message is the error alone, or NoResponse.
    """
    names = [{"topic_id": None, "name": topic}]
    (found,) = client.request(*METADATA, _of_topics(names, create=True)).topics
    check(found, "")
    return len(found.partitions)


def _of_topics(names: Sequence[Mapping[str, Any]] | None, *, create: bool = False) -> dict[str, Any]:
    return {"topics": names, "allow_auto_topic_creation": create, "include_topic_authorized_operations": False}


def partitions_of(cluster: Cluster, topic: str) -> Mapping[int, int]:
    """Return the leaders of the topic's partitions by index. Raises CliError if there is no such topic."""
    found = cluster.topics.get(topic)
    if found is None:
        raise not_found("topic", topic, lambda: cluster.topics)
    return found


def list_groups(
    client: Gateways, states: Sequence[str] = (), types: Sequence[str] = (), timeout_s: float | None = None
) -> list[Any]:
    """Return the groups of all gateways, each of which lists its own, by name. Raises CliError.

    ``timeout_s``: how long each of them may take, if it is less than for other requests.
    """
    limits: dict[str, Any] = {} if timeout_s is None else {"timeout_s": timeout_s, "each_s": timeout_s}
    found: dict[str, Any] = {}
    for address in metadata(client).gateways.values():
        with Gateways(address) as gateway:
            response = gateway.request(*LIST_GROUPS, {"states_filter": states, "types_filter": types}, **limits)
        if response.error_code is not ErrorCode.none:
            raise CliError(f"not every group can be listed: {response.error_code.name.upper()}; try again")
        found |= {group.group_id: group for group in response.groups}
    return [group for _, group in sorted(found.items())]


def group_names(bootstrap: str, timeout_s: float = _REACH_S) -> list[str]:
    """Return the names of all groups. Raises CliError, also if a gateway takes longer than ``timeout_s``."""
    listed = list_groups(admin(bootstrap, timeout_s), timeout_s=timeout_s)
    return [each.group_id for each in listed if not each.group_id.startswith(UNDO_PREFIX)]


def end_offsets(client: Gateways, topic: str, partitions: Iterable[int], at: int = LATEST) -> dict[int, int]:
    """Start or end offsets of the topic's partitions. CliError if they cannot be read."""
    found = list_offsets(client, ((topic, index) for index in partitions), at)
    return {index: offset for (_, index), offset in found.items()}


def list_offsets(client: Gateways, partitions: Iterable[tuple[str, int]], at: int) -> dict[tuple[str, int], int]:
    """Return the offset of each topic and partition, negative if no message has the time. Raises CliError.

    ``at``: ``EARLIEST``, ``LATEST`` or a time in ms.
    """
    topics: dict[str, list[dict[str, int]]] = {}
    for topic, index in partitions:
        wanted = {"partition_index": index, "current_leader_epoch": NO_LEADER_EPOCH, "timestamp": at}
        topics.setdefault(topic, []).append(wanted)
    if not topics:
        return {}
    named = [{"name": topic, "partitions": wanted} for topic, wanted in topics.items()]
    body = {"replica_id": NO_REPLICA, "isolation_level": READ_UNCOMMITTED, "topics": named}
    found: dict[tuple[str, int], int] = {}
    for topic in client.request(*LIST_OFFSETS, body).topics:
        for each in topic.partitions:
            check(each, f"offsets of {topic.name}-{each.partition_index} cannot be read")
            found[topic.name, each.partition_index] = each.offset
    return found
