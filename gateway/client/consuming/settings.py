"""Settings of a member: its topics, and how batches are handled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from muster.gateway.client.errors import InvalidConsumer

if TYPE_CHECKING:
    from muster.gateway.client.cluster import Cluster

Value = str | int | float | bool
"""Type of a property of librdkafka."""
MAX_POLL_INTERVAL_MS = 300_000
"""librdkafka's default of ``max.poll.interval.ms``."""
_HEARTBEAT_MS = 1_000
"""Members learn of a rebalance with a heartbeat, so it is done sooner than with the default of 3 s."""
_MIN_QUEUED = 1_000
_OURS = {
    "bootstrap.servers": "give a cluster instead",
    "metadata.broker.list": "give a cluster instead",
    "group.id": "it is the group",
    "client.id": "it names the group and the member",
    "group.instance.id": "a static member that is stopped would block its partitions until its session ends",
    "enable.auto.commit": "offsets are committed once their records are handled",
    "enable.auto.offset.store": "offsets are committed once their records are handled",
    "enable.partition.eof": "it is needed to commit beyond the last record",
}


@dataclass(frozen=True, slots=True)
class Consumption:
    """Settings that the members of a group share. It pickles."""

    cluster: Cluster
    group: str
    topics: tuple[str, ...]
    max_records: int
    """In a batch."""
    attempts: int
    """To handle a batch as a whole."""
    dead_letters: str | None
    """The topic of records that could not be handled; None: the first of them ends the consumer."""
    consumer_config: Mapping[str, Value] = field(default_factory=dict)
    """Properties of librdkafka in addition."""

    @property
    def max_poll_interval_s(self) -> float:
        """Time without a poll after which the group goes on without the member."""
        return float(self.consumer_config.get("max.poll.interval.ms", MAX_POLL_INTERVAL_MS)) / 1000

    @property
    def starts_at_end(self) -> bool:
        """Whether a partition without a committed offset is read from its end, by ``auto.offset.reset``."""
        reset = self.consumer_config.get("auto.offset.reset", "earliest")
        return reset not in ("earliest", "smallest", "beginning")

    def consumer_properties(self, client_id: str) -> dict[str, Any]:
        """Return the properties of the member's consumer."""
        properties: dict[str, Any] = {
            "auto.offset.reset": "earliest",
            "queued.min.messages": max(2 * self.max_records, _MIN_QUEUED),
        }
        if self.consumer_config.get("group.protocol", "classic") == "classic":
            properties |= {
                "partition.assignment.strategy": "cooperative-sticky",
                "heartbeat.interval.ms": _HEARTBEAT_MS,
            }
        properties |= self.consumer_config
        return self.cluster.client(
            **properties,
            **{
                "group.id": self.group,
                "client.id": client_id,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            },
        )


def consumption(
    cluster: Cluster,
    topics: str | Sequence[str],
    group: str,
    *,
    max_records: int,
    attempts: int,
    dead_letters: str | None,
    consumer_config: Mapping[str, Value],
) -> Consumption:
    """Return the settings, checked. Raises InvalidConsumer."""
    names = (topics,) if isinstance(topics, str) else tuple(dict.fromkeys(topics))
    if not names or not all(names):
        raise InvalidConsumer("there is no topic to read: name one or more")
    if not group:
        raise InvalidConsumer("the name of the group is empty: choose one")
    for name, number in {"max_records": max_records, "attempts": attempts}.items():
        if number < 1:
            raise InvalidConsumer(f"{name} cannot be {number}: choose 1 or more")
    if dead_letters in names:
        raise InvalidConsumer(f"dead letters cannot go to {dead_letters}, which is read: choose another topic")
    for name in sorted(consumer_config.keys() & _OURS.keys()):
        raise InvalidConsumer(f"consumer_config cannot have {name}: {_OURS[name]}")
    for name, value in consumer_config.items():
        if not isinstance(value, Value):
            raise InvalidConsumer(f"consumer_config has a {type(value).__name__} for {name}: give a string or a number")
    return Consumption(cluster, group, names, max_records, attempts, dead_letters, dict(consumer_config))


def check_topics(settings: Consumption, client_id: str) -> None:
    """Raise UnknownTopic for a topic that does not exist, Refused or NoResponse."""
    with settings.cluster.leaders(client_id) as leaders:
        for topic in (*settings.topics, *filter(None, [settings.dead_letters])):
            leaders.partitions(topic)
