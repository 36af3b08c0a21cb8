"""Creation of topics, on Muster and on a real Kafka."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.client.errors import NoResponse, TopicDiffers
from muster.gateway.client.kafka.brokers import RETRIABLE, Brokers
from muster.gateway.client.kafka.refusals import check
from muster.gateway.client.kafka.requests import METADATA, of_topics
from muster.placement.host_port import host_port

CREATE_TOPICS, DESCRIBE_CONFIGS = (19, 7), (32, 4)
TOPIC = 2
"""The type of a resource that has configs."""
REQUEST_TIMEOUT_MS = 15_000
_READY_S = 30.0
"""Time for all brokers to learn of a new topic, and for its partitions to get leaders."""
_PAUSE_S = 0.1
_PASSING = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.leader_not_available})


def ensure_topic(client: Brokers, name: str, partitions: int, config: Mapping[str, str]) -> None:
    """Create the topic if it is missing; return when all its partitions have leaders.

    Raises TopicDiffers if it exists with another number of partitions or another value of a name in ``config``,
    Refused, NoResponse.
    """
    until_s = time.monotonic() + _READY_S
    created = _create(client, name, partitions, config, until_s)
    if created.error_code is not ErrorCode.topic_already_exists:
        check(created, f"topic {name} cannot be created")
        _until_led(client, name, until_s)
        return
    found = _until_led(client, name, until_s)
    differences = [f"{found} partitions, not {partitions}"] if found != partitions else []
    if config:
        values = configs_of(client, name, config)
        differences += [
            f"{key}={values.get(key)}, not {value}"
            for key, value in config.items()
            if _comparable(values.get(key)) != _comparable(value)
        ]
    if differences:
        raise TopicDiffers(
            f"topic {name} exists with {' and '.join(differences)}; use another name, or the topic as it is, or "
            "delete it first"
        )


def new_topic(name: str, partitions: int, config: Mapping[str, str]) -> dict[str, Any]:
    """Return the body of CreateTopics. -1 partitions are the cluster's default, as replication is (KIP-464)."""
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": -1,
        "assignments": [],
        "configs": [{"name": key, "value": str(value)} for key, value in config.items()],
    }
    return {"topics": [topic], "timeout": REQUEST_TIMEOUT_MS, "validate_only": False}


def _create(client: Brokers, name: str, partitions: int, config: Mapping[str, str], until_s: float) -> Any:
    """Return the result, from the controller where only that creates topics (a Kafka with ZooKeeper).

    It may be repeated: what a lost response would have reported, the next one does as "exists".
    """
    body = new_topic(name, partitions, config)
    with contextlib.ExitStack() as stack:
        at = client
        while True:
            (created,) = at.request(*CREATE_TOPICS, body, retriable=RETRIABLE).topics
            if created.error_code is not ErrorCode.not_controller or time.monotonic() > until_s:
                return created
            time.sleep(_PAUSE_S)
            response = client.request(*METADATA, of_topics([]))
            addresses = {each.node_id: host_port(each.host, each.port) for each in response.brokers}
            if controller := addresses.get(response.controller_id):
                at = stack.enter_context(client.at(controller))


def _until_led(client: Brokers, name: str, until_s: float) -> int:
    """Return the number of its partitions once all have leaders."""
    body = of_topics([{"topic_id": None, "name": name}])
    while True:
        (topic,) = client.request(*METADATA, body).topics
        if topic.error_code not in _PASSING:
            check(topic, f"topic {name} cannot be described")
            if all(each.leader_id >= 0 for each in topic.partitions):
                return len(topic.partitions)
        if time.monotonic() > until_s:
            raise NoResponse(f"topic {name}", f"after {_READY_S:g} s", "has partitions without a leader")
        time.sleep(_PAUSE_S)


def configs_of(client: Brokers, name: str, keys: Iterable[str]) -> dict[str, str | None]:
    """Return the values of these configs of a topic. Raises Refused or NoResponse."""
    resource = {"resource_type": TOPIC, "resource_name": name, "configuration_keys": list(keys)}
    body = {"resources": [resource], "include_synonyms": False, "include_documentation": False}
    (found,) = client.request(*DESCRIBE_CONFIGS, body).results
    check(found, f"configs of topic {name} cannot be read")
    return {entry.name: entry.value for entry in found.configs}


def _comparable(value: str | None) -> list[str] | None:
    """Return what is the same for a list in another order: ``compact,delete``."""
    return None if value is None else sorted(part.strip().lower() for part in str(value).split(","))
