"""The whole Muster stops in order and starts again, on its storage and on the Ray that ran all the while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psutil
import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from tests.cluster.consumer_groups.groups import PARTITIONS, generation, until_read, working
from tests.cluster.consumer_groups.members import ConfluentMember, Producer, everything
from tests.conformance.topics import commit, committed, own_configs
from tests.muster_process import Muster
from tests.nodes.bench import Bench
from tests.nodes.relay import Relay

COUNT = 300
WAIT_S = 60
PATIENT = {"session.timeout.ms": 180_000}
"""librdkafka counts, too, while no broker is available."""


def shown(muster: Muster, topic: str, group: str) -> dict[str, Any]:
    """Return the topic's id, partitions and config, and the offsets of the group."""
    admin = AdminClient({"bootstrap.servers": muster.bootstrap})
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(WAIT_S)
    return {
        "id": str(described.topic_id),
        "partitions": len(described.partitions),
        "config": own_configs(muster.bootstrap, topic),
        "offsets": committed(muster.bootstrap, group),
    }


@contextmanager
def known_addresses(bootstrap: str) -> Iterator[list[Relay]]:
    """Relays at the addresses that clients know: the next gateways of nodes on one machine have other ports."""
    with ExitStack() as stack:
        places = [address.rpartition(":") for address in bootstrap.split(",")]
        yield [stack.enter_context(Relay(host, int(port), None)) for host, _, port in places]


@pytest.mark.timeout(400)
def test_everything_is_there_after_a_restart(on_nodes: Bench, fresh: Callable[[str], str]) -> None:
    muster = on_nodes.muster
    topic = muster.topic(fresh("kept"), partitions=PARTITIONS, config={"retention.ms": "777000"})
    idle, group = fresh("idle"), fresh("g")
    commit(muster.bootstrap, idle, {(topic, partition): partition + 1 for partition in range(PARTITIONS)})
    members = [ConfluentMember(muster.bootstrap, topic, group, **PATIENT) for _ in range(2)]
    producer = Producer(muster.bootstrap, topic)

    def stability() -> object:
        held = [(member.identity(), member.rebalances, frozenset(member.assigned)) for member in members]
        return held, generation(muster, group)

    with ExitStack() as doors, working(*members):
        producer.send(COUNT)
        producer.flush()
        until_read(members, COUNT)
        before, stable = shown(muster, topic, idle), stability()
        processes = [psutil.Process(actor["pid"]) for actor in muster.actors().values()]
        known = muster.bootstrap
        assert muster.stop() == 0
        relays = doors.enter_context(known_addresses(known))
        assert psutil.wait_procs(processes, timeout=WAIT_S)[1] == []
        muster.start()
        on_nodes.until_settled()
        for relay, address in zip(relays, muster.ready["bootstrap"], strict=True):
            host, _, port = address.rpartition(":")
            relay.redirect(host, int(port))
        assert shown(muster, topic, idle) == before
        producer.send(COUNT)
        producer.flush()
        until_read(members, 2 * COUNT)
        assert stability() == stable
    producer.check(everything(muster.bootstrap, topic, PARTITIONS, producer.sent))
    assert sum(len(member.read) for member in members) == 2 * COUNT
