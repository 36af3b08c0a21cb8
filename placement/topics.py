"""The topics of the cluster, in ZooKeeper. Calls block for at most ~10 s, then raise ZooKeeperUnreachable."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID, uuid4

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError

from muster.placement import epochs
from muster.placement.epochs import ActorEpoch
from muster.placement.layout import (
    TOPIC_CONFIGS,
    TOPICS,
    Malformed,
    decode_config,
    decode_topic,
    encode_config,
    encode_topic,
    encode_topic_id,
    topic_config_path,
    topic_path,
)
from muster.placement.view import Topic
from muster.placement.zookeeper.client import ZooKeeperClient

log = logging.getLogger(__name__)

MAX_NAME_LENGTH = 249
MAX_PARTITIONS = 1000
"""Per topic, to fit all of its nodes into one ZooKeeper transaction (jute.maxbuffer, 1 MiB)."""
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


class TopicError(Exception):
    """A request about topics was refused, and nothing was changed. The message is suitable for the client."""


class TopicExists(TopicError):
    """Kafka's TOPIC_ALREADY_EXISTS."""


class UnknownTopic(TopicError):
    """Kafka's UNKNOWN_TOPIC_OR_PARTITION."""


class InvalidTopic(TopicError):
    """Kafka's INVALID_TOPIC_EXCEPTION: an illegal name, or one that collides with an existing topic."""


class InvalidPartitions(TopicError):
    """Kafka's INVALID_PARTITIONS."""


def check_name(name: str) -> None:
    """Raise InvalidTopic unless Kafka would accept the name (``org.apache.kafka.common.internals.Topic``)."""
    if not name:
        raise InvalidTopic("Topic name is invalid: the empty string is not allowed")
    if name in (".", ".."):
        raise InvalidTopic("Topic name is invalid: '.' or '..' is not allowed")
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidTopic(
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
        )
    if not _LEGAL.fullmatch(name):
        raise InvalidTopic(
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )


def check_partitions(partitions: int) -> None:
    """Raise InvalidPartitions unless a topic can have that many."""
    if partitions < 1:
        raise InvalidPartitions(f"Number of partitions was set to an invalid non-positive value: {partitions}")
    if partitions > MAX_PARTITIONS:
        raise InvalidPartitions(f"{partitions} partitions are more than the {MAX_PARTITIONS} that a topic may have")


class TopicRegistry:
    """Creates, changes, deletes and lists topics. Any number may exist; ZooKeeper resolves conflicts.

    With ``controller``, every change is on behalf of that controller; ``epochs.Superseded`` once it has a successor.
    """

    def __init__(self, zk: ZooKeeperClient, controller: ActorEpoch | None = None) -> None:
        self._zk = zk
        self._controller = controller

    def load(self) -> dict[str, Topic]:
        """All topics by name, sorted by name. layout.Malformed for a node that is not one of our topics."""
        zk = self._zk
        try:
            zk.call(zk.sync_async, TOPICS)
            names = sorted(zk.call(zk.get_children_async, TOPICS))
        except NoNodeError:
            return {}
        nodes = zk.read_many([topic_path(name) for name in names])
        configs = zk.read_many([topic_config_path(name) for name in names])
        topics = {}
        for name in names:
            if node := nodes.get(topic_path(name)):
                config = configs.get(topic_config_path(name))
                topics[name] = decode_topic(
                    name, node[0], stored_config(topic_config_path(name), config[0]) if config else {}
                )
        return topics

    def create(
        self,
        name: str,
        partitions: int,
        config: Mapping[str, str] | None = None,
        *,
        replication_factor: int = 1,
        internal: bool = False,
    ) -> Topic:
        """Create the topic, all or nothing. Raises TopicExists, InvalidTopic or InvalidPartitions."""
        check_name(name)
        check_partitions(partitions)
        topic = Topic(
            name=name,
            topic_id=_new_topic_id(),
            partitions=partitions,
            replication_factor=replication_factor,
            internal=internal,
            config=dict(config or {}),
        )
        while True:
            names, version = self._names()
            if name in names:
                existing = self._read(name)
                if existing is None:
                    continue
                if existing.topic_id == topic.topic_id:  # our own, created by a call whose response was lost
                    return topic
                raise TopicExists(f"Topic '{name}' already exists.")
            check_collisions(name, names)
            try:
                self._write_new(topic, version)
            except (BadVersionError, NodeExistsError):
                continue
            return topic

    def delete(self, name: str) -> Topic:
        """Delete the topic, all or nothing. Returns the deleted topic. Raises UnknownTopic."""
        topic = self._require(name)
        while True:
            nodes = [*self._below(topic_path(name)), topic_path(name)]
            if self._zk.call(self._zk.exists_async, topic_config_path(name)):
                nodes.append(topic_config_path(name))
            try:
                self._commit([("delete", node) for node in nodes])
            except (NoNodeError, NotEmptyError):
                left = self._read(name)
                if left is not None and left.topic_id == topic.topic_id:
                    continue  # an epoch was taken meanwhile; else a call whose response was lost has deleted it
            return topic

    def add_partitions(self, name: str, total: int) -> Topic:
        """Grow the topic to ``total`` partitions. Raises UnknownTopic; InvalidPartitions unless it grows."""
        check_partitions(total)

        def grown(topic: Topic) -> Topic:
            if total == topic.partitions:
                raise InvalidPartitions(f"Topic already has {total} partitions.")
            if total < topic.partitions:
                raise InvalidPartitions(
                    f"Topic currently has {topic.partitions} partitions, which is higher than the requested {total}."
                )
            return dataclasses.replace(topic, partitions=total)

        return self._change(name, grown)

    def set_replication_factor(self, name: str, factor: int) -> Topic:
        """Keep another replication factor with the topic. Raises UnknownTopic."""
        return self._change(name, lambda topic: dataclasses.replace(topic, replication_factor=factor))

    def _change(self, name: str, changed: Callable[[Topic], Topic]) -> Topic:
        """Replace the topic by what ``changed`` makes of it, and return that. Raises UnknownTopic."""
        zk = self._zk
        while True:
            try:
                data, stat = zk.call(zk.get_async, topic_path(name))
            except NoNodeError:
                raise unknown_topic(name) from None
            topic: Topic = changed(decode_topic(name, data, self._config(name)))
            try:
                self._commit([("set_data", topic_path(name), encode_topic(topic), stat.version)])
            except (BadVersionError, NoNodeError):
                continue
            return topic

    def next_producer_id_block(self, size: int = 1000) -> range:
        """See :func:`muster.placement.epochs.next_producer_id_block`."""
        return epochs.next_producer_id_block(self._zk, size)

    def next_epoch(self, topic: str, partition: int, owner: str) -> int:
        """See :func:`muster.placement.epochs.next_epoch`."""
        return epochs.next_epoch(self._zk, topic, partition, owner)

    def _names(self) -> tuple[frozenset[str], int]:
        """Return the names in use, and the version of that set: every creation increments it."""
        zk = self._zk
        for path in (TOPICS, TOPIC_CONFIGS):
            zk.call(zk.ensure_path_async, path)
        _, stat = zk.call(zk.get_async, TOPICS)
        return frozenset(zk.call(zk.get_children_async, TOPICS)), int(stat.version)

    def _write_new(self, topic: Topic, version: int) -> None:
        config_node = topic_config_path(topic.name)
        orphan = self._zk.call(self._zk.exists_async, config_node)  # Kafka's tools can create it before the topic
        self._commit(
            [
                ("set_data", TOPICS, b"", version),
                ("create", topic_path(topic.name), encode_topic(topic)),
                ("set_data" if orphan else "create", config_node, encode_config(topic.config)),
            ]
        )

    def _commit(self, operations: list[tuple[Any, ...]]) -> None:
        epochs.commit_as(self._zk, self._controller, operations)

    def _require(self, name: str) -> Topic:
        topic = self._read(name)
        if topic is None:
            raise unknown_topic(name)
        return topic

    def _read(self, name: str) -> Topic | None:
        zk = self._zk
        try:
            data, _ = zk.call(zk.get_async, topic_path(name))
        except NoNodeError:
            return None
        return decode_topic(name, data, self._config(name))

    def _config(self, name: str) -> dict[str, str]:
        try:
            data, _ = self._zk.call(self._zk.get_async, topic_config_path(name))
        except NoNodeError:
            return {}
        return stored_config(topic_config_path(name), data)

    def _below(self, path: str) -> list[str]:
        """All nodes under the path, children before parents."""
        try:
            children = sorted(self._zk.call(self._zk.get_children_async, path))
        except NoNodeError:
            return []
        return [found for child in children for found in (*self._below(f"{path}/{child}"), f"{path}/{child}")]


def check_collisions(name: str, names: Iterable[str]) -> None:
    """Raise InvalidTopic if one differs only in '.' and '_', which are equal in the names of Kafka's metrics."""
    alike = sorted(other for other in names if other.replace(".", "_") == name.replace(".", "_"))
    if alike:
        raise InvalidTopic(f"Topic '{name}' collides with existing topics: {', '.join(alike)}")


def _new_topic_id() -> UUID:
    while True:
        topic_id = uuid4()
        if not encode_topic_id(topic_id).startswith("-"):  # as Kafka: a command line would parse it as an option
            return topic_id


def stored_config(path: str, data: bytes) -> dict[str, str]:
    """Return the configuration stored there. A malformed one is logged, and sets nothing."""
    try:
        return decode_config(data)
    except Malformed as error:
        log.warning("%s is left out: %s", path, error)
        return {}


def unknown_topic(name: str) -> UnknownTopic:
    return UnknownTopic(f"Topic '{name}' does not exist.")
