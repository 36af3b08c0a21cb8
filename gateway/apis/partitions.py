"""Maps the partitions that a request names to the actors that own them, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from muster.actors.wire.internal.channel import Channel, NotSent
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.kafka.steps import Steps, finish
from muster.placement.view import COORDINATORS, Topic

if TYPE_CHECKING:
    from muster.gateway.listener.api import Call
    from muster.gateway.listener.forward import ActorKey
    from muster.gateway.listener.gateway import Gateway

WRITE_GRACE_S = 5.0
"""How much longer than the client's timeout a log may take to write before the response is REQUEST_TIMED_OUT.

The timeout is for replicas that do not follow; there are none. The write itself takes its time, as in Kafka.
"""


class Named(NamedTuple):
    """A partition as the request names it, and the topic if one with that name or id exists."""

    name: str | None
    """None in versions that name topics by id."""
    topic_id: UUID | None
    partition: int
    topic: Topic | None

    @property
    def key(self) -> tuple[str | None, UUID | None, int]:
        return (self.name, self.topic_id, self.partition)


def named(gateway: Gateway, name: str | None, topic_id: UUID | None, partition: int) -> Named:
    """Look the topic up."""
    return Named(name, topic_id, partition, gateway.topic(name, topic_id))


def existence_error(partition: Named) -> ErrorCode | None:
    """Kafka's error for a topic or partition that does not exist."""
    if partition.topic is None:
        return ErrorCode.unknown_topic_id if partition.name is None else ErrorCode.unknown_topic_or_partition
    if not 0 <= partition.partition < partition.topic.partitions:
        return ErrorCode.unknown_topic_or_partition
    return None


def repeated(partitions: Iterable[Named]) -> set[Any]:
    """Return the keys of the partitions that occur more than once."""
    return {key for key, count in Counter(partition.key for partition in partitions).items() if count > 1}


def owner_of(gateway: Gateway, topic: Topic, partition: int) -> ActorKey:
    """Return the actor that owns the partition's log."""
    if topic.name in COORDINATORS:
        return (COORDINATORS[topic.name], partition)
    return ("log", gateway.view.log_of(topic, partition))


def channel_to(gateway: Gateway, owner: ActorKey) -> Channel | None:
    """Return the channel to that actor, or None while it is down."""
    return gateway.forwarder.channel(owner)


async def send(call: Call, owner: ActorKey, api_key: int, version: int, body: dict[str, Any]) -> bytes:
    """Return the response of an actor to a request of our own. Raises NotSent or another ChannelLost.

    Waits for an actor that was lost a moment ago.
    """
    channel = await call.gateway.forwarder.soon(owner)
    if channel is None:
        raise NotSent(f"{owner[0]}-{owner[1]} is down")
    frame = codec.encode_request(api_key, version, call.header.correlation_id, call.header.client_id, body)
    return await channel.call(call.connection.context, frame)


def by_topic(partitions: Iterable[Named]) -> list[tuple[Named, list[Named]]]:
    """Group by topic, in the order in which topics first occur; each with one of its partitions for its name.

    A partition that occurs twice is included once.
    """
    return finish(_by_topic(partitions))


async def grouped(call: Call, partitions: Iterable[Named]) -> list[tuple[Named, list[Named]]]:
    """:func:`by_topic`; if the request is large, others are served meanwhile."""
    return await call.gateway.turns.run(_by_topic(partitions)) if call.is_large else by_topic(partitions)


def _by_topic(partitions: Iterable[Named]) -> Steps[list[tuple[Named, list[Named]]]]:
    groups: dict[tuple[str | None, UUID | None], dict[int, Named]] = {}
    for partition in partitions:
        groups.setdefault((partition.name, partition.topic_id), {})[partition.partition] = partition
        yield
    return [(next(iter(members.values())), [*members.values()]) for members in groups.values()]
