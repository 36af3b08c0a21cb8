"""A server, Muster or Kafka, whose clients log in by PLAIN and have quotas."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Self

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from tests.gateway.authorization.world import ADMIN, PASSWORD
from tests.gateway.sasl_login import by_plain
from tests.gateway.serving import Client
from tests.log.support import client_batch
from tests.zookeeper_fixture import eventually

PRODUCE, API_VERSIONS, CREATE_TOPICS, DESCRIBE, ALTER = 0, 18, 19, 48, 49
TOPIC = "quotas"
USERS = [f"q{number}" for number in range(300)]
"""They may do everything. Each is used once: what a user or a client id has used is not forgotten."""

Parts = Sequence[tuple[str, str | None]]
"""Type and name of each part of an entity; None is the default."""
Entry = tuple[Parts, Mapping[str, float | None]]
"""An entity and its quotas; None removes one."""


def batch(count: int) -> bytes:
    """Return records of this moment: older ones would be deleted at once."""
    return client_batch(count, first_ms=int(time.time() * 1000))


def produce_body(records: bytes, acks: int = 1) -> dict[str, Any]:
    """Return a request to the topic of the world."""
    data = [{"name": TOPIC, "topic_id": None, "partition_data": [{"index": 0, "records": records}]}]
    return {"transactional_id": None, "acks": acks, "timeout": 10_000, "topic_data": data}


def size_of(records: bytes) -> int:
    """Bytes of a Produce of these records by a client without a name, as they are charged."""
    return len(codec.encode_request(PRODUCE, 9, 0, "", produce_body(records)))


def throttle_ms(response: Any) -> int | None:
    """None where the version of the response has no such field."""
    return getattr(response, "throttle_time", None)


class World:
    """Its admin has no quota."""

    def __init__(self, bootstrap_server: str, *, follows_later: bool = False) -> None:
        """``follows_later``: whether changes of quotas apply a moment after their response, as in Kafka."""
        self._follows_later = follows_later
        host, _, port = bootstrap_server.rpartition(":")
        self._address = (host, int(port))
        self._open = ExitStack()
        self._numbers = itertools.count()
        self.admin = self._open.enter_context(Client(self._address[1], "admin", host=host))
        self._log_in(self.admin, ADMIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def connect(self, client_id: str, source: str | None = None) -> Client:
        """Open a connection that has not logged in, from an address of this host."""
        return Client(self._address[1], client_id, host=self._address[0], source=source)

    @contextmanager
    def client(self, user: str, client_id: str = "a client") -> Iterator[Client]:
        """Another connection: those of before may be muted."""
        with self.connect(client_id) as client:
            self._log_in(client, user)
            yield client

    def _log_in(self, client: Client, user: str) -> None:
        assert by_plain(client, user, PASSWORD).error_code is ErrorCode.none

    def prepare(self) -> None:
        """Create the topic, and wait until it has a leader."""
        topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        body = {"topics": [topic], "timeout": 20_000, "validate_only": False}
        assert self.admin.exchange(CREATE_TOPICS, 5, body).topics[0].error_code is ErrorCode.none
        eventually(self._is_led, "a leader")

    def produce(self, client: Client, records: bytes) -> Any:
        """Produce to the topic; return the response."""
        return client.exchange(PRODUCE, 9, produce_body(records))

    def _is_led(self) -> bool:
        (topic,) = self.produce(self.admin, batch(1)).responses
        return topic.partition_responses[0].error_code is ErrorCode.none

    def alter(self, *entries: Entry) -> list[Any]:
        """Alter quotas; return the results of AlterClientQuotas."""
        return alter(self.admin, *entries)

    def limit(self, *entries: Entry) -> None:
        """Set quotas; they apply when this returns.

        A broker of Kafka that follows several changes at once has an order of its own: once it knows of one that came
        later than these, it knows of these when it knows of the next.
        """
        if entries:
            assert {each.error_code for each in self.alter(*entries)} == {ErrorCode.none}
        for _ in range(2 if self._follows_later else 0):
            canary = f"canary-{next(self._numbers)}"
            last: Entry = ([("user", ADMIN), ("client-id", canary)], {"producer_byte_rate": 1})
            assert self.alter(last)[0].error_code is ErrorCode.none
            eventually(partial(self._is_limited, canary), "the quotas")

    def _is_limited(self, client_id: str) -> bool:
        """To a byte per second."""
        records = batch(10)
        with self.client(ADMIN, client_id) as client:
            return (throttle_ms(self.produce(client, records)) or 0) > (size_of(records) - 20) * 1000

    def unlimit(self) -> None:
        """Remove all quotas."""
        remove_all(self.admin)
        self.limit()


def alter(client: Client, *entries: Entry) -> list[Any]:
    """Alter quotas; return the results of AlterClientQuotas."""
    body = {
        "entries": [
            {
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in parts],
                "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in quotas.items()],
            }
            for parts, quotas in entries
        ],
        "validate_only": False,
    }
    return list(client.exchange(ALTER, 1, body).entries)


def remove_all(client: Client) -> None:
    """Remove all quotas of a server."""
    described = client.exchange(DESCRIBE, 1, {"components": [], "strict": False}).entries
    entries: list[Entry] = [
        ([(part.entity_type, part.entity_name) for part in each.entity], {value.key: None for value in each.values})
        for each in described
    ]
    assert {each.error_code for each in alter(client, *entries)} <= {ErrorCode.none}
