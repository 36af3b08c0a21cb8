"""``kafka-configs``, and requests that alter configs, against Muster and against Apache Kafka."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator

import pytest

from muster.actors.config.kept import KEPT, kept_errors
from muster.actors.wire.kafka.codec import ErrorCode
from tests.conformance.artifacts import Kafka
from tests.conformance.clients import Tools
from tests.conformance.topics import create_topic
from tests.gateway.config_requests import (
    BROKER,
    CASES,
    DELETE,
    KAFKA_TOPIC_CONFIGS,
    SET,
    SET_BY_PROGRAMS,
    THE_TOPIC,
    THROTTLE,
    TOPIC,
    Case,
    create,
    described,
    incremental,
)
from tests.gateway.serving import Client

Fresh = Callable[[str], str]

TOPICS, GROUPS = ("--entity-type", "topics"), ("--entity-type", "groups")
BROKERS = ("--entity-type", "brokers")


@pytest.fixture
def tools(bootstrap: str, release: Kafka) -> Tools:
    return Tools(release, bootstrap)


def configs_in(printed: str) -> dict[str, str]:
    """For each config in the output of kafka-configs: name, and the value with its synonym."""
    found = re.findall(r"^  (\S+?)=(\S*) sensitive=false synonyms=\{(\w+)", printed, re.MULTILINE)
    return {name: f"{value} {source}" for name, value, source in found}


def test_requests_get_kafkas_responses(bootstrap: str, fresh: Fresh) -> None:
    topic = fresh("topic")
    create_topic(bootstrap, topic, 1)
    host, _, port = bootstrap.split(",")[0].rpartition(":")

    def response(case: Case) -> tuple[ErrorCode, str | None]:
        with Client(int(port), host=host) as client:
            name = topic if case.name == THE_TOPIC else case.name
            found = incremental(client, (case.kind, name, case.changes))[0]
            return ErrorCode(found.error_code), case.message and found.error_message

    assert [(case, response(case)) for case in CASES] == [(case, (case.error, case.message)) for case in CASES]


def test_every_config_of_a_topic(bootstrap: str, fresh: Fresh) -> None:
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    plain, configured = fresh("topic"), fresh("topic")
    with Client(int(port), host=host) as client:
        assert create(client, plain, {}).error_code == create(client, configured, SET_BY_PROGRAMS).error_code == 0
        create_topic(bootstrap, fresh("topic"), 1)  # a broker of Kafka knows of the others, too, once it knows of this
        found = {name: (config.value, config.config_type) for name, config in described(client, TOPIC, plain).items()}
        found["flush.messages"] = KAFKA_TOPIC_CONFIGS["flush.messages"]  # Muster's is 1
        assert found == KAFKA_TOPIC_CONFIGS
        shown = described(client, TOPIC, configured)
        assert {name: shown[name].value for name in SET_BY_PROGRAMS} == SET_BY_PROGRAMS
        null = create(client, fresh("topic"), {"retention.ms": None, "preallocate": None})
        says = "Null value not supported for topic configs: retention.ms,preallocate"
        assert (null.error_code, null.error_message) == (ErrorCode.invalid_config, says)


def test_properties_without_an_effect_have_kafkas_bounds(bootstrap: str) -> None:
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    with Client(int(port), host=host) as client:
        for name, value in itertools.product(KEPT, ("-7", "x")):
            [response] = incremental(client, (BROKER, "", [(name, SET, value)]), validate_only=True)
            assert (response.error_message or "") == "".join(kept_errors({name: value}))


def test_the_throttle_of_a_reassignment_is_kept(bootstrap: str) -> None:
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    with Client(int(port), host=host) as client:
        for name in ("", "1"):
            assert incremental(client, (BROKER, name, THROTTLE), validate_only=True)[0].error_code == ErrorCode.none


def test_configs_of_a_topic(tools: Tools, bootstrap: str, fresh: Fresh) -> None:
    topic = ("--entity-name", fresh("topic"))
    create_topic(bootstrap, topic[1], 1)
    added = "cleanup.policy=[compact,delete],retention.ms=5000,compression.type=zstd"
    tools.configs("--alter", *TOPICS, *topic, "--add-config", added)
    tools.configs("--alter", *TOPICS, *topic, "--delete-config", "retention.ms")
    assert configs_in(tools.configs("--describe", *TOPICS, *topic)) == {
        "cleanup.policy": "compact,delete DYNAMIC_TOPIC_CONFIG",
        "compression.type": "zstd DYNAMIC_TOPIC_CONFIG",
    }


@pytest.fixture
def brokers_as_before(bootstrap: str) -> Iterator[None]:
    """Restores the configs for other checks, also if a check fails."""
    yield
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    changes = [("log.retention.ms", DELETE, None), ("max.connections", DELETE, None)]
    with Client(int(port), host=host) as client:
        responses = incremental(client, *((BROKER, name, changes) for name in ("", "1")))
    assert {ErrorCode(response.error_code) for response in responses} == {ErrorCode.none}


@pytest.mark.usefixtures("brokers_as_before")
def test_configs_of_brokers(tools: Tools) -> None:
    default, one = "--entity-default", ("--entity-name", "1")
    tools.configs("--alter", *BROKERS, default, "--add-config", "log.retention.ms=5000,max.connections=700")
    tools.configs("--alter", *BROKERS, *one, "--add-config", "max.connections=500")
    everywhere = configs_in(tools.configs("--describe", *BROKERS, default))
    assert everywhere.items() >= {
        ("log.retention.ms", "5000 DYNAMIC_DEFAULT_BROKER_CONFIG"),
        ("max.connections", "700 DYNAMIC_DEFAULT_BROKER_CONFIG"),
    }
    assert configs_in(tools.configs("--describe", *BROKERS, *one))["max.connections"] == "500 DYNAMIC_BROKER_CONFIG"
    all_of_one = configs_in(tools.configs("--describe", *BROKERS, *one, "--all"))
    assert all_of_one["log.retention.ms"] == "5000 DYNAMIC_DEFAULT_BROKER_CONFIG"
    with pytest.raises(AssertionError, match="Cannot update these configs dynamically"):
        tools.configs("--alter", *BROKERS, default, "--add-config", "log.retention.hours=1")
    tools.configs("--alter", *BROKERS, default, "--delete-config", "log.retention.ms,max.connections")
    tools.configs("--alter", *BROKERS, *one, "--delete-config", "max.connections")
    assert not {"log.retention.ms", "max.connections"} & set(configs_in(tools.configs("--describe", *BROKERS, default)))


def test_configs_of_a_group(tools: Tools, fresh: Fresh) -> None:
    name = fresh("group / of ours")
    group = ("--entity-name", name)
    everything = configs_in(tools.configs("--describe", *GROUPS, *group, "--all"))
    assert everything["consumer.session.timeout.ms"] == "45000 DEFAULT_CONFIG"
    assert f"group {name} " not in tools.configs("--describe", *GROUPS)
    tools.configs("--alter", *GROUPS, *group, "--add-config", "consumer.session.timeout.ms=50000")
    held = {"consumer.session.timeout.ms": "50000 DYNAMIC_GROUP_CONFIG"}
    assert configs_in(tools.configs("--describe", *GROUPS, *group)) == held
    assert f"Dynamic configs for group {name} are:" in tools.configs("--describe", *GROUPS)
    tools.configs("--alter", *GROUPS, *group, "--delete-config", "consumer.session.timeout.ms")
    assert f"group {name} " not in tools.configs("--describe", *GROUPS)


def test_there_are_no_client_metrics(tools: Tools) -> None:
    assert tools.configs("--describe", "--entity-type", "client-metrics").strip() == ""
