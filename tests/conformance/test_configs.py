"""``kafka-configs``, and requests that alter configs, against Muster and against Apache Kafka."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from muster.actors.wire.codec import ErrorCode
from tests.conformance.artifacts import Kafka
from tests.conformance.clients import Tools
from tests.conformance.topics import create_topic
from tests.gateway.config_requests import BROKER, CASES, DELETE, THE_TOPIC, Case, incremental
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

    def response(case: Case) -> ErrorCode:
        with Client(int(port), host=host) as client:
            name = topic if case.name == THE_TOPIC else case.name
            return ErrorCode(incremental(client, (case.kind, name, case.changes))[0].error_code)

    assert [(case, response(case)) for case in CASES] == [(case, case.error) for case in CASES]


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
