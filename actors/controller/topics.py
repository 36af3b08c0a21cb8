"""How the controller changes topics and configs: one by one in ZooKeeper, then published to all actors."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from uuid import UUID

from muster.actors.config import MusterConfig, in_force
from muster.actors.config.altering import Alteration, InvalidAlteration, configs_after
from muster.actors.config.derived import COORDINATOR_TOPICS
from muster.actors.config.resources import ResourceType
from muster.actors.controller.admin import NewTopic, TopicOutcome
from muster.actors.controller.changes import NOT_BEGUN, UNKNOWN, Changes
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.configs import ConfigRegistry
from muster.placement.layout import DEFAULT_BROKER
from muster.placement.topics import (
    InvalidPartitions,
    InvalidTopic,
    TopicError,
    TopicExists,
    TopicRegistry,
    UnknownTopic,
    check_collisions,
    check_name,
    check_partitions,
)
from muster.placement.view import COORDINATORS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, DynamicConfigs, Topic
from muster.placement.zookeeper.client import ZooKeeperUnreachable

log = logging.getLogger(__name__)

_ONE_COPY = (
    "topic %s has replication factor %d, but there is one copy of a partition: it is as durable as storage.path "
    "(said once; max.replication.factor=1 refuses such topics)"
)
_NO_ID = UUID(int=0)
_CODES = {
    TopicExists: ErrorCode.topic_already_exists,
    UnknownTopic: ErrorCode.unknown_topic_or_partition,
    InvalidTopic: ErrorCode.invalid_topic_exception,
    InvalidPartitions: ErrorCode.invalid_partitions,
}


class TopicsAdmin:
    """``topics`` and ``configs`` are what ZooKeeper had when it was last read: at :meth:`load` and after each change.

    While ZooKeeper is unavailable, changes fail with REQUEST_TIMED_OUT in bounded time, and each says whether it may
    have been done. Once ZooKeeper is available again, everything is read again.
    """

    def __init__(
        self, registry: TopicRegistry, configs: ConfigRegistry, config: MusterConfig, changed: Callable[[], None]
    ) -> None:
        """``config`` is what the cluster was started with; ``changed`` is called when there is something new."""
        self.topics: Mapping[str, Topic] = {}
        self.configs = DynamicConfigs()
        self._registry = registry
        self._configs = configs
        self._config = config
        self._has_warned_of_one_copy = False
        self._changes = Changes("topics", self._read_again, changed, threads=2)

    def load(self) -> None:
        """Read the topics, and create ``__consumer_offsets`` if this cluster is new. Blocks."""
        topics, self.configs = self._read()
        if OFFSETS_TOPIC not in topics:
            topics[OFFSETS_TOPIC] = self._create_for_coordinators(OFFSETS_TOPIC, self._registry)
        self.topics = topics

    def _create_for_coordinators(self, name: str, registry: TopicRegistry) -> Topic:
        config = self._config
        partitions, factor = {
            OFFSETS_TOPIC: (config.offsets_topic_num_partitions, config.offsets_topic_replication_factor),
            TRANSACTIONS_TOPIC: (
                config.transaction_state_log_num_partitions,
                config.transaction_state_log_replication_factor,
            ),
        }[name]
        own = {key: COORDINATOR_TOPICS[name][key] for key in ("cleanup.policy", "compression.type")}
        return registry.create(name, partitions, own, replication_factor=factor, internal=True)

    async def require(self, name: str) -> Topic:
        """Return the topic of coordinators of that name, created if it does not exist.

        Raises RuntimeError if that fails now.
        """
        if name not in self.topics:
            await self._change([(name, partial(self._create_for_coordinators, name))], False)
        if name not in self.topics:
            raise RuntimeError(f"{name} cannot be created now")
        return self.topics[name]

    async def create(self, topics: Sequence[NewTopic], validate_only: bool) -> list[TopicOutcome]:
        """Create topics that do not exist yet, each independently of the others."""

        def create(topic: NewTopic, registry: TopicRegistry) -> Topic:
            if topic.name in COORDINATORS and topic.name not in self.topics:
                raise InvalidTopic(f"Topic '{topic.name}' is created when the first client needs it.")
            config = in_force(self._config, self.configs)
            partitions = topic.partitions if topic.partitions > 0 else config.num_partitions
            factor = topic.replication_factor
            if factor < 1:
                factor = config.default_replication_factor
            if validate_only:
                check_name(topic.name)
                check_partitions(partitions)
                if topic.name in self.topics:
                    raise TopicExists(f"Topic '{topic.name}' already exists.")
                check_collisions(topic.name, self.topics)
                return Topic(
                    name=topic.name,
                    topic_id=_NO_ID,
                    partitions=partitions,
                    replication_factor=factor,
                    config=topic.config,
                )
            return registry.create(topic.name, partitions, topic.config, replication_factor=factor)

        outcomes = await self._change([(topic.name, partial(create, topic)) for topic in topics], validate_only)
        if not validate_only:
            self._warn_of_one_copy(outcomes)
        return outcomes

    def _warn_of_one_copy(self, created: Sequence[TopicOutcome]) -> None:
        """Warn about the first topic that gets a replication factor above 1, and not again."""
        if self._has_warned_of_one_copy:
            return
        for topic in (outcome.topic for outcome in created if not outcome.error):
            if topic is not None and topic.replication_factor > 1:
                self._has_warned_of_one_copy = True
                log.warning(_ONE_COPY, topic.name, topic.replication_factor)
                return

    async def delete(self, names: Sequence[str]) -> list[TopicOutcome]:
        """Delete topics, with their data and their committed offsets."""

        def delete(name: str, registry: TopicRegistry) -> Topic:
            return registry.delete(name)

        return await self._change([(name, partial(delete, name)) for name in names], False)

    async def add_partitions(self, totals: dict[str, int], validate_only: bool) -> list[TopicOutcome]:
        """Increase the numbers of partitions of topics to these totals."""

        def grow(name: str, total: int, registry: TopicRegistry) -> Topic:
            if validate_only:
                if name not in self.topics:
                    raise UnknownTopic(f"Topic '{name}' does not exist.")
                check_partitions(total)
                if total <= self.topics[name].partitions:
                    raise InvalidPartitions(f"Topic '{name}' has {self.topics[name].partitions} partitions already.")
                return dataclasses.replace(self.topics[name], partitions=total)
            return registry.add_partitions(name, total)

        return await self._change([(name, partial(grow, name, total)) for name, total in totals.items()], validate_only)

    async def set_replication_factors(self, factors: dict[str, int]) -> list[TopicOutcome]:
        """Keep these replication factors with topics."""

        def change(name: str, factor: int, registry: TopicRegistry) -> Topic:
            return registry.set_replication_factor(name, factor)

        outcomes = await self._change(
            [(name, partial(change, name, factor)) for name, factor in factors.items()], False
        )
        self._warn_of_one_copy(outcomes)
        return outcomes

    async def alter_configs(self, alterations: Sequence[Alteration], validate_only: bool) -> list[TopicOutcome]:
        """Change configs of topics, brokers and groups, each independently of the others. Outcomes are in order."""

        def change(alteration: Alteration, _: TopicRegistry) -> None:
            alter(self._configs, alteration, self._config, validate_only)

        return await self._change([(each.name, partial(change, each)) for each in alterations], validate_only)

    async def _change(
        self, changes: Sequence[tuple[str, Callable[[TopicRegistry], Topic | None]]], validate_only: bool
    ) -> list[TopicOutcome]:
        """Make the changes in ZooKeeper one by one, then publish what ZooKeeper has."""
        async with self._changes.turn() as has_turn:
            if not has_turn:
                return [_timed_out(name, self._changes.busy) for name, _ in changes]
            outcomes: list[TopicOutcome] = []
            try:
                outcomes = await self._carry_out_all(changes)
            finally:  # ZooKeeper may be lost between two changes; those that were made must be visible
                if not validate_only:
                    await self._changes.reload(is_away=any(outcome.message == UNKNOWN for outcome in outcomes))
            return outcomes

    async def _carry_out_all(
        self, changes: Sequence[tuple[str, Callable[[TopicRegistry], Topic | None]]]
    ) -> list[TopicOutcome]:
        outcomes: list[TopicOutcome] = []
        for name, change in changes:
            try:
                outcomes.append(await self._changes.in_thread(partial(_carry_out, self._registry, name, change)))
            except ZooKeeperUnreachable:
                rest = [_timed_out(other, NOT_BEGUN) for other, _ in changes[len(outcomes) + 1 :]]
                return [*outcomes, _timed_out(name, UNKNOWN), *rest]
        return outcomes

    async def _read_again(self) -> None:
        self.topics, self.configs = await self._changes.in_thread(self._read)

    def _read(self) -> tuple[dict[str, Topic], DynamicConfigs]:
        return self._registry.load(), self._configs.load()

    async def producer_ids(self) -> range:
        """Return a block of producer ids that were never given out before. Raises ZooKeeperUnreachable."""
        return await self._changes.in_thread(self._registry.next_producer_id_block)

    async def partition_counts(self, names: Collection[str]) -> dict[str, int]:
        """How many partitions these topics have, as ZooKeeper says now; without those that it does not have.

        Raises ZooKeeperUnreachable.
        """
        topics = await self._changes.in_thread(self._registry.load)
        return {name: topics[name].partitions for name in names if name in topics}


def alter(registry: ConfigRegistry, alteration: Alteration, config: MusterConfig, validate_only: bool) -> None:
    """Change the configs of one resource in ZooKeeper. Blocks. Raises InvalidAlteration or UnknownTopic.

    ``config`` is what the cluster was started with.
    """

    def decide(current: Mapping[str, str]) -> Mapping[str, str]:
        wanted = configs_after(alteration, current, config, registry.load_brokers())
        return current if validate_only else wanted

    match alteration.type:
        case ResourceType.TOPIC:
            registry.change_topic(alteration.name, decide)
        case ResourceType.BROKER:
            registry.change_broker(alteration.name or DEFAULT_BROKER, decide)
        case ResourceType.GROUP:
            registry.change_group(alteration.name, decide)
        case ResourceType.CLIENT_METRICS:
            registry.change_client_metrics(alteration.name, decide)


def _carry_out(registry: TopicRegistry, name: str, change: Callable[[TopicRegistry], Topic | None]) -> TopicOutcome:
    try:
        return TopicOutcome(name, 0, None, change(registry))
    except InvalidAlteration as error:
        return TopicOutcome(name, int(error.code), str(error))
    except TopicError as error:
        return TopicOutcome(name, int(_CODES[type(error)]), str(error))


def _timed_out(name: str, why: str) -> TopicOutcome:
    return TopicOutcome(name, int(ErrorCode.request_timed_out), why)
