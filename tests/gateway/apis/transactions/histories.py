"""Random requests about the transactions of one partition, and the responses of a server.

``python -m tests.gateway.apis.transactions.histories`` has a real Apache Kafka respond to them, and stores that beside
this module. Its log rolls after the first record, whose timestamp is years old, and a Fetch of it ends with a segment.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from uuid import UUID

from confluent_kafka.admin import AdminClient, NewTopic

from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.view import Topic
from tests.conformance.kafka import KafkaBroker
from tests.gateway.apis.test_data_apis import EARLIEST, LATEST, fetch_body, list_offsets, produce
from tests.gateway.serving import Client
from tests.log.support import NOW_MS, client_batch
from tests.zookeeper_fixture import eventually

RESPONSES = Path(__file__).with_name("kafka_responses.json")
PROPERTIES = {"transaction.partition.verification.enable": "false"}
SEEDS = range(16)
STEPS = 60
FETCH, LIST_OFFSETS, WRITE_TXN_MARKERS, DESCRIBE_PRODUCERS = 1, 2, 27, 61
COORDINATOR_EPOCH = 3
_CHOICES = (
    *["write"] * 5,
    *("commit", "abort", "bump", "bump_strictly", "again", "old_coordinator"),
    *("stale", "gap", "repeat", "outside", "plain"),
    *("describe", "fetch", "list"),
)

Response = list[Any]


class History:
    """One client, three producers without a coordinator, and one partition."""

    def __init__(self, client: Client, topic: Topic, seed: int) -> None:
        self._client = client
        self._topic = topic
        self._random = random.Random(seed)
        self._producers = dict.fromkeys((5001, 5002, 5003), (0, 0))
        """Epoch and next sequence."""

    def responses(self) -> list[Response]:
        """Return the responses. A step may have several; each begins with the step's number and what it was."""
        found: list[Response] = []
        for number in range(STEPS):
            step = self._random.choice(_CHOICES)
            found += [[number, step, *response] for response in self._step(step)]
        return found

    def _step(self, step: str) -> list[Response]:
        if step in ("describe", "fetch", "list"):
            return list(getattr(self, f"_{step}")())
        if step == "plain":
            return [self._produced(client_batch(2), None)]
        producer_id = self._random.choice(list(self._producers))
        if step in ("write", "stale", "gap", "repeat", "outside"):
            return [self._write(step, producer_id)]
        return [self._mark(step, producer_id)]

    def _produced(self, batch: bytes, transactional_id: str | None) -> Response:
        parts = (self._topic, 0, batch)
        (result,) = produce(self._client, parts, version=11, transactional_id=transactional_id)
        return [result.error_code.name, result.base_offset]

    def _write(self, step: str, producer_id: int) -> Response:
        epoch, following = self._producers[producer_id]
        sequence = {"gap": following + 5, "repeat": max(following - 1, 0)}.get(step, following)
        batch = client_batch(
            producer=(producer_id, max(epoch - (step == "stale"), 0), sequence), transactional=step != "outside"
        )
        error, offset = self._produced(batch, None if step == "outside" else "tx")
        if error == ErrorCode.none.name and sequence == following:
            self._producers[producer_id] = (epoch, following + 1)
        return [producer_id, sequence, error, offset]

    def _mark(self, step: str, producer_id: int) -> Response:
        epoch = self._producers[producer_id][0]
        bumped = epoch + step.startswith("bump")
        marker = {
            "producer_id": producer_id,
            "producer_epoch": bumped,
            "transaction_result": step == "commit",
            "topics": [{"name": self._topic.name, "partition_indexes": [0]}],
            "coordinator_epoch": COORDINATOR_EPOCH - (step == "old_coordinator"),
            "transaction_version": 2 if step in ("bump_strictly", "again") else 0,
        }
        (found,) = self._client.exchange(WRITE_TXN_MARKERS, 2, {"markers": [marker]}).markers
        error = found.topics[0].partitions[0].error_code
        if error is ErrorCode.none and bumped > epoch:
            self._producers[producer_id] = (bumped, 0)
        return [producer_id, bumped, error.name]

    def _describe(self) -> list[Response]:
        body = {"topics": [{"name": self._topic.name, "partition_indexes": [0]}]}
        (found,) = self._client.exchange(DESCRIBE_PRODUCERS, 0, body).topics[0].partitions
        fields = ("producer_id", "producer_epoch", "last_sequence", "coordinator_epoch", "current_txn_start_offset")
        producers = [[getattr(each, name) for name in fields] for each in found.active_producers]
        return [[found.error_code.name, sorted(producers)]]

    def _fetch(self) -> list[Response]:
        responses = []
        for isolation_level in (0, 1):
            for offset in (0, self._random.randint(0, 20)):
                body = fetch_body((self._topic, 0, offset), isolation_level=isolation_level)
                (found,) = self._client.exchange(FETCH, 12, body).responses[0].partitions
                listed = found.aborted_transactions
                aborted = None if listed is None else sorted([each.producer_id, each.first_offset] for each in listed)
                ends = [found.high_watermark, found.last_stable_offset, found.log_start_offset]
                size_bytes = len(found.records or b"")
                responses.append([isolation_level, offset, found.error_code.name, *ends, aborted, size_bytes])
        return responses

    def _list(self) -> list[Response]:
        """Not the largest timestamp: markers have the time of the server."""
        responses = []
        for isolation_level in (0, 1):
            for time in (LATEST, EARLIEST, NOW_MS):
                partition = {"partition_index": 0, "timestamp": time, "current_leader_epoch": -1}
                topics = [{"name": self._topic.name, "partitions": [partition]}]
                body = {"replica_id": -1, "isolation_level": isolation_level, "topics": topics, "timeout": 5000}
                (found,) = self._client.exchange(LIST_OFFSETS, 8, body).topics[0].partitions
                responses.append([isolation_level, time, found.error_code.name, found.offset])
        return responses


def _record() -> None:
    with KafkaBroker({**PROPERTIES, "auto.create.topics.enable": "false"}) as broker:
        host, port = broker.bootstrap_servers.split(":")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        responses = {}
        for seed in SEEDS:
            name = f"history-{seed}"
            for created in admin.create_topics([NewTopic(name, 1, 1)]).values():
                created.result()
            client = Client(int(port), host=host)
            eventually(
                lambda client=client, name=name: (
                    list_offsets(client, 8, name, (0, LATEST))[0].error_code is ErrorCode.none
                ),
                "the topic is there",
            )
            topic = Topic(name=name, topic_id=UUID(int=0), partitions=1)
            responses[str(seed)] = History(client, topic, seed).responses()
            client.finish()
    lines = (f'"{seed}": [\n' + ",\n".join(map(json.dumps, of_seed)) + "\n]" for seed, of_seed in responses.items())
    RESPONSES.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    _record()
