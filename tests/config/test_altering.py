"""The resulting configs of a resource, as in Kafka's ConfigurationControlManager."""

from __future__ import annotations

import pytest

from muster.actors.config import (
    DYNAMIC,
    TOPIC_CONFIGS,
    MusterConfig,
    group_config,
    in_force,
    log_config,
    offsets_log_config,
    topic_config_errors,
)
from muster.actors.config.altering import Alteration, Change, InvalidAlteration, Operation, configs_after
from muster.actors.config.resources import ResourceType
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.view import OFFSETS_TOPIC, DynamicConfigs

SET, DELETE, APPEND, SUBTRACT = Operation
STARTED_WITH = MusterConfig.from_properties({"log.cleanup.policy": "compact", "group.max.session.timeout.ms": "60000"})


def changes(*each: tuple[str, Operation, str | None]) -> tuple[Change, ...]:
    return tuple(Change(*one) for one in each)


def topic(
    current: dict[str, str], *each: tuple[str, Operation, str | None], name: str = "t", replace: bool = False
) -> dict[str, str]:
    alteration = Alteration(ResourceType.TOPIC, name, changes(*each), replace)
    return configs_after(alteration, current, STARTED_WITH, DynamicConfigs())


def cluster(
    *each: tuple[str, Operation, str | None], current: dict[str, str] | None = None, broker: str = ""
) -> dict[str, str]:
    configs = DynamicConfigs(brokers={1: current or {}}) if broker else DynamicConfigs(cluster=current or {})
    return configs_after(Alteration(ResourceType.BROKER, broker, changes(*each)), current or {}, STARTED_WITH, configs)


def test_the_operations() -> None:
    before = {"retention.ms": "1000", "cleanup.policy": "delete"}
    assert topic(before, ("retention.ms", SET, "5")) == {**before, "retention.ms": "5"}
    assert topic(before, ("retention.ms", DELETE, None)) == {"cleanup.policy": "delete"}
    assert topic(before, ("cleanup.policy", APPEND, "compact")) == {**before, "cleanup.policy": "delete,compact"}
    assert topic(before, ("cleanup.policy", APPEND, "delete")) == before
    both = {"cleanup.policy": "delete,compact"}
    assert topic(both, ("cleanup.policy", SUBTRACT, "delete")) == {"cleanup.policy": "compact"}
    assert topic(both, ("cleanup.policy", SUBTRACT, "what is not there")) == both
    assert topic(before, ("flush.ms", DELETE, None), ("no.such", DELETE, None)) == before


def test_blanks_around_a_value_are_not_kept() -> None:
    assert topic({}, ("retention.ms", SET, " 7\t")) == {"retention.ms": "7"}
    assert cluster(("num.partitions", SET, " " * 32_000 + "7")) == {"num.partitions": "7"}


def test_a_list_that_is_not_set_grows_from_what_holds() -> None:
    assert topic({}, ("cleanup.policy", APPEND, "delete")) == {"cleanup.policy": "compact,delete"}


def test_a_list_may_become_empty_and_grows_again() -> None:
    empty = topic({"cleanup.policy": "compact"}, ("cleanup.policy", SUBTRACT, "compact"))
    assert empty == {"cleanup.policy": ""}
    assert (log_config(STARTED_WITH, empty).deletes, log_config(STARTED_WITH, empty).compacts) == (False, False)
    assert topic(empty, ("cleanup.policy", APPEND, "delete")) == {"cleanup.policy": "delete"}


def test_a_list_grows_from_what_was_altered_for_the_cluster() -> None:
    configs = DynamicConfigs(cluster={"log.cleanup.policy": "delete"})
    alteration = Alteration(ResourceType.TOPIC, "t", changes(("cleanup.policy", APPEND, "compact")))
    assert configs_after(alteration, {}, STARTED_WITH, configs) == {"cleanup.policy": "delete,compact"}


def test_alter_configs_leaves_only_what_it_names() -> None:
    before = {"retention.ms": "1000", "cleanup.policy": "delete"}
    assert topic(before, ("segment.ms", SET, "7"), replace=True) == {"segment.ms": "7"}
    assert topic(before, replace=True) == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("no.such", SET, "1"), "Unknown topic config name: no.such"),
        (("retention.ms", APPEND, "1"), "Can't APPEND to key retention.ms because its type is not LIST."),
        (("no.such", SUBTRACT, "1"), "Can't SUBTRACT to key no.such because its type is not LIST."),
        (
            ("max.compaction.lag.ms", SET, "9"),
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (9)",
        ),
    ],
)
def test_what_a_topic_cannot_have(change: tuple[str, Operation, str], message: str) -> None:
    with pytest.raises(InvalidAlteration) as refused:
        topic({"min.compaction.lag.ms": "10"}, change)
    assert (refused.value.code, str(refused.value)) == (ErrorCode.invalid_config, message)


def test_the_offsets_topic_stays_compacted() -> None:
    before = {"cleanup.policy": "compact", "compression.type": "producer"}
    altered = topic(before, ("segment.bytes", SET, "4096"), ("cleanup.policy", SET, "compact"), name=OFFSETS_TOPIC)
    assert altered == {**before, "segment.bytes": "4096"}
    for change in (("cleanup.policy", APPEND, "delete"), ("flush.messages", SET, "9")):
        with pytest.raises(InvalidAlteration, match="of __consumer_offsets can only be"):
            topic(before, change, name=OFFSETS_TOPIC)


def test_properties_of_the_cluster() -> None:
    held = cluster(("log.retention.ms", SET, "5"), ("group.max.size", SET, "3"))
    assert held == {"log.retention.ms": "5", "group.max.size": "3"}
    assert cluster(("group.max.size", DELETE, None), current=held) == {"log.retention.ms": "5"}
    assert cluster(("log.cleanup.policy", APPEND, "delete")) == {"log.cleanup.policy": "compact,delete"}
    assert cluster(("max.connections", SET, "5"), broker="1") == {"max.connections": "5"}


def test_what_was_stored_before_blocks_nothing() -> None:
    """Another version may have stored a config that cannot be altered now."""
    before = {"listeners": "PLAINTEXT://:1", "no.such": "1"}
    assert cluster(("group.max.size", SET, "3"), current=before) == {**before, "group.max.size": "3"}
    assert cluster(("no.such", DELETE, None), current=before) == {"listeners": "PLAINTEXT://:1"}


@pytest.mark.parametrize(
    ("change", "broker", "message"),
    [
        (("listeners", SET, "PLAINTEXT://:1"), "", "Cannot update these configs dynamically: [listeners]"),
        (("log.retention.hours", SET, "1"), "1", "Cannot update these configs dynamically: [log.retention.hours]"),
        (("no.such", SET, "1"), "", "unknown property no.such"),
        (("log.cleaner.threads", SET, "x"), "", "Invalid value x for configuration log.cleaner.threads: Not a number"),
        (("zookeeper.session.timeout.ms", SET, "9"), "1", "zookeeper.session.timeout.ms has no effect in Muster (noth"),
        (("group.max.size", SET, "1"), "1", "Cannot update these configs of one broker, only cluster-wide"),
        (("group.max.size", SET, "0"), "", "group.max.size=0 must be at least 1"),
        (("group.min.session.timeout.ms", SET, "60001"), "", "group.min.session.timeout.ms must not be greater than"),
        (("max.connections", SET, "x"), "1", "max.connections=x is not a whole number"),
        (("max.connections", SET, "0"), "", "max.connections=0 must be at least 1"),  # it could not be reverted
    ],
)
def test_what_a_broker_cannot_have(change: tuple[str, Operation, str], broker: str, message: str) -> None:
    with pytest.raises(InvalidAlteration) as refused:
        cluster(change, broker=broker)
    assert refused.value.code is ErrorCode.invalid_request
    assert str(refused.value).startswith(message)


def test_configs_of_groups() -> None:
    def group(*each: tuple[str, Operation, str | None]) -> dict[str, str]:
        return configs_after(Alteration(ResourceType.GROUP, "g", changes(*each)), {}, STARTED_WITH, DynamicConfigs())

    assert group(("consumer.session.timeout.ms", SET, "50000")) == {"consumer.session.timeout.ms": "50000"}
    for name, value, message in (
        ("consumer.session.timeout.ms", "44999", "must be between 45000 and 60000"),
        ("consumer.sesion.timeout.ms", "50000", r"Unknown group config name: .*did you mean consumer\.session"),
        ("share.session.timeout.ms", "50000", "Muster has no groups of that type"),
    ):
        with pytest.raises(InvalidAlteration, match=message):
            group((name, SET, value))


def test_what_holds() -> None:
    configs = DynamicConfigs(
        cluster={"log.retention.ms": "5", "max.connections": "70", "listeners": "PLAINTEXT://:1"},
        brokers={1: {"max.connections": "7", "group.max.size": "2"}},
    )
    everywhere, on_one = in_force(STARTED_WITH, configs), in_force(STARTED_WITH, configs, 1)
    assert (everywhere.retention_ms, everywhere.max_connections, on_one.max_connections) == (5, 70, 7)
    assert (on_one.listeners, on_one.group_max_size) == (STARTED_WITH.listeners, STARTED_WITH.group_max_size)
    assert in_force(STARTED_WITH, configs) is everywhere
    assert log_config(everywhere, {"retention.ms": "9"}).retention_ms == 9
    assert everywhere.log_cleanup_policy == "compact"


def test_what_was_stored_and_cannot_be_any_more_is_left_out() -> None:
    """A start with other properties may make earlier alterations invalid."""
    configs = DynamicConfigs(cluster={"group.min.session.timeout.ms": "70000", "group.max.size": "3"})
    held = in_force(STARTED_WITH, configs)
    assert (held.group_min_session_timeout_ms, held.group_max_size) == (6_000, 3)


def test_of_what_cannot_be_together_the_first_holds() -> None:
    configs = DynamicConfigs(cluster={"group.max.session.timeout.ms": "40000", "group.min.session.timeout.ms": "50000"})
    held = in_force(STARTED_WITH, configs)
    assert (held.group_min_session_timeout_ms, held.group_max_session_timeout_ms) == (6_000, 40_000)


EDGES = [str(sign * 2**bits + off) for bits in (0, 4, 15, 31, 63) for sign in (-1, 1) for off in (-1, 0)]
VALUES = [*EDGES, *(f" {text} " for text in ("7", "0.5", "true", "compact", "delete,compact", "gzip", "LogAppendTime"))]
VALUES += ["10.0.0.1:5", "false", "*"]


@pytest.mark.parametrize("name", sorted(DYNAMIC))
def test_what_the_cluster_accepts_can_be_obeyed(name: str) -> None:
    """A stored value that cannot be applied would keep every log and coordinator from starting."""
    accepted = 0
    for value in VALUES:
        try:
            held = cluster((name, SET, value))
        except InvalidAlteration:
            continue
        config = in_force(STARTED_WITH, DynamicConfigs(cluster=held))
        log_config(config), offsets_log_config(config), group_config(config)
        accepted += 1
    assert accepted


@pytest.mark.parametrize("name", TOPIC_CONFIGS)
def test_what_a_topic_accepts_can_be_obeyed(name: str) -> None:
    accepted = [value for value in VALUES if topic_config_errors({name: value}) is None]
    assert accepted
    for value in accepted:
        defaults, obeyed = log_config(STARTED_WITH), log_config(STARTED_WITH, {name: value})
        assert defaults.override({name: value}) == obeyed
