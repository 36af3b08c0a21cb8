"""Kafka protocol clients of Muster's commands: confluent-kafka, with readable errors."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, OffsetSpec, PartitionMetadata

from muster.gateway.cli.errors import CliError
from muster.gateway.cli.login import current_security
from muster.gateway.cli.suggestions import not_found
from muster.placement.view import UNDO_PREFIX

T = TypeVar("T")
Client = TypeVar("Client", AdminClient, Consumer, Producer)
EARLIEST, LATEST = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]

TIMEOUT_S = 15.0
"""Limit of any one response."""

_REACH_TIMEOUT_S = 8.0
_SILENT = logging.getLogger("librdkafka")
_SILENT.addHandler(logging.NullHandler())


def admin(bootstrap: str) -> AdminClient:
    """Return an admin client of these gateways. Raises CliError if none of them responds."""
    return client_of(AdminClient, bootstrap)


def client_of(kind: type[Client], bootstrap: str, **properties: Any) -> Client:
    """Return a client of these gateways; properties of librdkafka have ``_`` for ``.``.

    Raises CliError if none of them responds.
    """
    security = current_security()
    _SILENT.propagate = logging.getLogger().isEnabledFor(logging.DEBUG)
    failures: list[KafkaError] = []
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "client.id": "muster-cli",
        "socket.connection.setup.timeout.ms": 5000,
        "error_cb": failures.append,
        **{name.replace("_", "."): value for name, value in properties.items()},
    }
    client = kind(config | (security.librdkafka() if security else {}), logger=_SILENT)
    try:
        client.list_topics(timeout=_REACH_TIMEOUT_S)
    except KafkaException as error:
        client.poll(0)
        refusal = next((one for one in failures if one.code() == KafkaError._AUTHENTICATION), None)
        if refusal is not None:
            raise CliError(f"the gateway at {bootstrap} refuses the login: {refusal.str()}") from error
        raise CliError(
            f"no gateway responds at {bootstrap} ({text_of(error)}); see muster status; "
            "where clients need a login or TLS, use --command-config FILE"
        ) from error
    return client


def metadata(client: AdminClient) -> ClusterMetadata:
    """Return all topics: requesting one by name would create it. Raises CliError."""
    with refused("topics cannot be listed"):
        return client.list_topics(timeout=TIMEOUT_S)


def partitions_of(cluster: ClusterMetadata, topic: str) -> Mapping[int, PartitionMetadata]:
    """Return the topic's partitions by index. Raises CliError if there is no such topic."""
    found = cluster.topics.get(topic)
    if found is None:
        raise not_found("topic", topic, lambda: cluster.topics)
    return found.partitions


def group_names(bootstrap: str) -> list[str]:
    """Return the names of all groups of consumers. Raises CliError."""
    client = admin(bootstrap)  # the requests of a client that is not referred to are cancelled
    listed = result(client.list_consumer_groups(request_timeout=TIMEOUT_S), "groups cannot be listed")
    return [each.group_id for each in listed.valid if not each.group_id.startswith(UNDO_PREFIX)]


def end_offsets(client: AdminClient, topic: str, partitions: list[int], spec: OffsetSpec = LATEST) -> dict[int, int]:
    """Start or end offsets of the topic's partitions. CliError if they cannot be fetched."""
    found = list_offsets(client, ((topic, index) for index in partitions), spec)
    return {index: offset for (_, index), offset in found.items()}


def list_offsets(
    client: AdminClient, partitions: Iterable[tuple[str, int]], spec: OffsetSpec
) -> dict[tuple[str, int], int]:
    """Return the offset of each topic and partition, negative if no message has the time. Raises CliError."""
    wanted = {TopicPartition(*each): spec for each in partitions}
    futures = client.list_offsets(wanted, request_timeout=TIMEOUT_S) if wanted else {}
    return {
        (each.topic, each.partition): result(future, f"offsets of {each.topic}-{each.partition} cannot be read").offset
        for each, future in futures.items()
    }


def result(future: Future[T], what: str) -> T:
    """Return the future's result. Raises CliError beginning with ``what`` if the cluster refused."""
    with refused(what):
        return future.result(TIMEOUT_S)


@contextlib.contextmanager
def refused(what: str) -> Iterator[None]:
    """Turn a refusal by the cluster into a CliError that begins with ``what``."""
    try:
        yield
    except KafkaException as error:
        raise CliError(f"{what}: {text_of(error)}") from error
    except TimeoutError as error:
        raise CliError(f"{what}: no response within {TIMEOUT_S:g} s; see muster status") from error


def text_of(error: KafkaException) -> str:
    cause: Any = error.args[0] if error.args else error
    text = cause.str() if hasattr(cause, "str") else str(cause)
    return f"{cause.name()} {text}" if hasattr(cause, "name") else text
