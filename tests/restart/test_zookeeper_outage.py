"""ZooKeeper stopped, restarted, and with all sessions expired, under a running Muster and real clients."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.placement.epochs import current_state
from muster.placement.hashing import partition_for
from muster.placement.layout import CLIENT_GROUP_ID, CONTROLLER, broker_path
from muster.placement.view import OFFSETS_TOPIC
from muster.placement.zookeeper.client import SESSION_TIMEOUT_S, ZooKeeperClient, connect
from tests.cluster.consumer_groups.groups import PARTITIONS, create, until_read, working
from tests.cluster.consumer_groups.members import ConfluentMember, Gap, Producer, committed_offsets
from tests.muster_process import Muster, eventually
from tests.zookeeper_sessions import end_sessions

WAIT_S = 60
OUTAGE_S = 2.5 * SESSION_TIMEOUT_S
"""Longer than a session of ZooKeeper, and than any wait for it."""
GATEWAYS = 2
OFFSETS_PARTITIONS = 4
_PROPERTIES = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "group.initial.rebalance.delay.ms": "0",
    "reconciler.interval.ms": "1000",
}


@dataclass
class Ensemble:
    """Muster's ZooKeeper, controlled by the test; and the test's own client of it."""

    server: EmbeddedZooKeeper
    zk: ZooKeeperClient

    def stop(self) -> None:
        self.server.stop()

    def start(self) -> None:
        self.server = EmbeddedZooKeeper.start(self.server.data_dir, self.server.port)


class Commits(threading.Thread):
    """Commits one offset after the other, for a group without members."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged = 0
        self.refused: list[KafkaException] = []
        self.gap = Gap()
        self._topic = topic
        self._ending = threading.Event()
        self._consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})

    def run(self) -> None:
        while not self._ending.wait(0.01):
            offset = TopicPartition(self._topic, 0, self.acknowledged + 1)
            try:
                self._consumer.commit(offsets=[offset], asynchronous=False)
            except KafkaException as error:
                self.refused.append(error)
                continue
            self.acknowledged += 1
            self.gap.mark()

    def end(self) -> None:
        self._ending.set()
        self.join(WAIT_S)
        assert not self.is_alive(), "a commit that is never answered"
        self._consumer.close()


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    server = EmbeddedZooKeeper.start(tmp_path_factory.mktemp("zookeeper"))
    running = Ensemble(server, connect(server.hosts, timeout_s=WAIT_S))
    yield running
    running.zk.shut()
    running.stop()


@pytest.fixture(scope="module")
def muster(ensemble: Ensemble, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """Yield a Muster that uses the test's own ZooKeeper."""
    storage = tmp_path_factory.mktemp("outage") / "storage"
    options = ["--gateways", str(GATEWAYS), "--zookeeper", ensemble.server.hosts]
    with Muster(storage, options, _PROPERTIES) as running:
        yield running


def group_on(offsets_partition: int, kind: str) -> str:
    names = (f"{kind}-{number}" for number in range(1000))
    return next(name for name in names if partition_for(name, OFFSETS_PARTITIONS) == offsets_partition)


def metric(muster: Muster, name: str) -> list[float]:
    """One value of each gateway."""
    values = []
    for url in muster.ready["metrics"]:
        with urllib.request.urlopen(url, timeout=WAIT_S) as response:
            families = text_string_to_metric_families(response.read().decode())
            values += [sample.value for family in families for sample in family.samples if sample.name == name]
    return values


def lines(muster: Muster, pattern: str) -> dict[str, list[str]]:
    """Return the matching lines of each process's log, by process."""
    logs = sorted((muster.storage / "run" / "log").glob("*.log"))
    return {log.stem: [line for line in log.read_text().splitlines() if re.search(pattern, line)] for log in logs}


def log_time() -> str:
    """Now, as the lines of logs begin."""
    return datetime.now().isoformat(timespec="milliseconds")


def mapping(zk: ZooKeeperClient, group: str) -> int:
    """Return the number of nodes that register a client as a consumer of the group."""
    hosts = [f"{CLIENT_GROUP_ID}/{host}" for host in zk.get_children(CLIENT_GROUP_ID)]
    clients = [f"{host}/{client}" for host in hosts for client in zk.get_children(host)]
    return sum(group in name for client in clients for name in zk.get_children(client))


def epochs(zk: ZooKeeperClient, topic: str) -> dict[tuple[str, int], int]:
    """Return the newest leader epoch of every partition of the topic and of ``__consumer_offsets``."""
    wanted = [(topic, partition) for partition in range(PARTITIONS)]
    wanted += [(OFFSETS_TOPIC, partition) for partition in range(OFFSETS_PARTITIONS)]
    return {key: current_state(zk, *key).leader_epoch for key in wanted}


def refusal(admin: AdminClient, topic: str) -> int:
    """Return the error of creating the topic."""
    with pytest.raises(KafkaException) as caught:
        admin.create_topics([NewTopic(topic, 1)])[topic].result(WAIT_S)
    return int(caught.value.args[0].code())


def send_slowly(producer: Producer, stop: threading.Event) -> None:
    while not stop.wait(0.02):
        producer.send(1)


def assert_logged_once(muster: Muster, names: set[str], stopped: str, started: str) -> None:
    """Each of these processes has logged once that ZooKeeper is unavailable, and once that it has returned.

    A process that was paused for the length of a session has outages of its own, before this one and after it.
    """

    def logged() -> dict[str, list[str]]:
        found = lines(muster, "ZooKeeper at .* is (unavailable|back after)")
        return {name: [line for line in some if line > stopped] for name, some in found.items() if name in names}

    def all_are_back(now: dict[str, list[str]]) -> bool:
        return now.keys() == names and all(some and "is back" in some[-1] for some in now.values())

    for name, found in eventually(logged, all_are_back, "all have said so", WAIT_S).items():
        assert ["is back" in line for line in found] == [False, True] * (len(found) // 2), f"{name}: {found}"
        assert [line < started for line in found].count(True) == 1, f"{name}: {found}"


@pytest.mark.timeout(400)
def test_work_continues_while_zookeeper_is_unavailable(
    ensemble: Ensemble, muster: Muster, record_property: Any
) -> None:
    """Everything that is acknowledged and read here must be so before ZooKeeper returns."""
    topic, idle = "outage", "opened-later"
    create(muster, topic)
    create(muster, idle)
    group, newcomers = group_on(1, "g"), group_on(1, "newcomers")
    first, second, third = (ConfluentMember(muster.bootstrap, topic, group) for _ in range(3))
    fourth = ConfluentMember(muster.bootstrap, topic, newcomers)
    bereaved = ConfluentMember(muster.bootstrap, topic, group_on(2, "bereaved"))
    early = ConfluentMember(muster.bootstrap, topic, group_on(3, "early"))
    producer, late_producer = Producer(muster.bootstrap, topic), Producer(muster.bootstrap, idle)
    commits = Commits(muster.bootstrap, group_on(1, "loop"), topic)
    admin = AdminClient({"bootstrap.servers": muster.bootstrap})
    admin.list_topics(timeout=WAIT_S)
    with working(first, second), working(bereaved):
        commits.start()
        producer.send(300)
        producer.flush()
        until_read([first, second], 300)
        until_read([bereaved], 300)
        eventually(lambda: mapping(ensemble.zk, group), lambda n: n == 2, "both members are in ZooKeeper", WAIT_S)
        before = epochs(ensemble.zk, topic)
        noise = {name: len(found) for name, found in lines(muster, " (WARNING|ERROR) ").items()}

        sessions = {name for name in muster.actors() if not name.startswith("standby-")} - {"offsets-2"}

        stopped = log_time()
        ensemble.stop()
        ends_s = time.monotonic() + OUTAGE_S
        for each in (producer, first, second, commits):
            each.gap.start()
        stop_sending = threading.Event()
        sending = threading.Thread(target=send_slowly, args=(producer, stop_sending), daemon=True)
        sending.start()
        assert refusal(admin, "too-early") == KafkaError.REQUEST_TIMED_OUT
        killed = muster.kill_actor("offsets-2")
        early.start()
        with working(third, beside=(first, second)), working(fourth):
            late_producer.send(1)
            stop_sending.wait(max(0.0, ends_s - time.monotonic()))
            stop_sending.set()
            sending.join(WAIT_S)
            producer.flush()
            read = [first, second, third]
            until_read(read, producer.sent)
            until_read([fourth], producer.sent)
            assert refusal(admin, "still-too-early") == KafkaError.REQUEST_TIMED_OUT
            assert metric(muster, "muster_zookeeper_connected") == [0] * GATEWAYS
            assert late_producer.acknowledged == {}
            assert not early.assigned
            record_property("longest gap of the producer", round(producer.gap.longest_s, 2))
            record_property("longest gap of a committing loop", round(commits.gap.longest_s, 2))
            print(f"longest gaps: producer {producer.gap.longest_s:.2f} s, commits {commits.gap.longest_s:.2f} s")

            started = log_time()
            ensemble.start()
            late_producer.flush()
            muster.until_back("offsets-2", killed)
            until_read([bereaved], producer.sent)
            until_read([early], producer.sent)
            eventually(lambda: mapping(ensemble.zk, group), lambda n: n == 3, "the third is in ZooKeeper", WAIT_S)
            eventually(lambda: mapping(ensemble.zk, newcomers), lambda n: n == 1, "the fourth is in ZooKeeper", WAIT_S)
        create(muster, "after")
    early.leave()
    commits.end()
    assert commits.refused == []
    assert committed_offsets(muster.bootstrap, group_on(1, "loop"), topic, 1)[0] == commits.acknowledged
    after = epochs(ensemble.zk, topic)
    assert {key: after[key] for key in before if after[key] < before[key]} == {}
    eventually(lambda: metric(muster, "muster_zookeeper_connected"), lambda now: now == [1] * GATEWAYS, "all are back")
    assert_logged_once(muster, sessions, stopped, started)
    logged = lines(muster, "ZooKeeper at .* is unavailable")
    assert metric(muster, "muster_zookeeper_outages_total") == [
        len(logged[f"gateway-{number + 1}"]) for number in range(GATEWAYS)
    ]
    counts = {name: len(found) - noise.get(name, 0) for name, found in lines(muster, " (WARNING|ERROR) ").items()}
    assert max(counts.values()) < OUTAGE_S, f"a storm: {counts}"


def muster_sessions(zk: ZooKeeperClient, some: set[int]) -> list[int]:
    """Ids among which all of Muster's are: a server numbers its sessions, so those of one start are adjacent."""
    assert zk.client_id is not None
    near = {each + distance for each in some for distance in range(-50, 50)}
    return sorted(near - {zk.client_id[0]})


def test_every_session_expires_at_once(ensemble: Ensemble, muster: Muster) -> None:
    topic, group = "sessions", group_on(1, "sessions")
    create(muster, topic)
    member = ConfluentMember(muster.bootstrap, topic, group)
    producer = Producer(muster.bootstrap, topic)
    zk = ensemble.zk
    ephemeral = [CONTROLLER, *(broker_path(number + 1) for number in range(GATEWAYS))]

    def owners() -> dict[str, int]:
        return {path: stat.ephemeralOwner for path in ephemeral if (stat := zk.exists(path))}

    with working(member):
        producer.send(100)
        producer.flush()
        until_read([member], 100)
        eventually(lambda: mapping(ensemble.zk, group), lambda n: n == 1, "the member is in ZooKeeper", WAIT_S)
        before = owners()
        assert set(before) == set(ephemeral)
        end_sessions(ensemble.server.hosts, muster_sessions(zk, set(before.values())))
        producer.send(100)
        producer.flush()
        until_read([member], 200)
        eventually(
            owners,
            lambda now: set(now) == set(ephemeral) and not set(now.values()) & set(before.values()),
            "controller and gateways show themselves with sessions of their own",
            WAIT_S,
        )
        create(muster, "after-sessions")
        assert mapping(ensemble.zk, group) == 1
    eventually(lambda: mapping(ensemble.zk, group), lambda n: n == 0, "the member has left, in ZooKeeper too", WAIT_S)
    renewed = {name for name, found in lines(muster, "is back after .* with a new session").items() if found}
    assert {"controller", "gateway-1", "gateway-2"} <= renewed


def test_what_is_killed_during_an_outage_serves_soon_after_it(
    ensemble: Ensemble, muster: Muster, record_property: Any
) -> None:
    """The controller and a log actor need ZooKeeper to start, and wait for it: nothing has to be started again."""
    topic, group = "killed-meanwhile", group_on(1, "killed-meanwhile")
    create(muster, topic)
    patient = {"session.timeout.ms": 180000}  # librdkafka counts too, while no coordinator is available
    member = ConfluentMember(muster.bootstrap, topic, group, **patient)
    producer = Producer(muster.bootstrap, topic)
    with working(member):
        producer.send(100)
        producer.flush()
        until_read([member], 100)
        pids = {name: actor["pid"] for name, actor in muster.actors().items()}
        tries = len(lines(muster, "the controller does not answer: RayTaskError")["gateway-1"])
        ensemble.stop()
        for name in ("log-0", "offsets-1"):
            os.kill(pids[name], signal.SIGKILL)
        waiting = lambda: lines(muster, "log-0 waits to serve: no ZooKeeper answers")["log-0"]  # noqa: E731
        eventually(waiting, bool, "the log actor waits", WAIT_S)
        os.kill(pids["controller"], signal.SIGKILL)
        refused = lambda: len(lines(muster, "the controller does not answer: RayTaskError")["gateway-1"])  # noqa: E731
        eventually(refused, lambda now: now > tries, "the controller waits", WAIT_S)
        producer.send(100)
        began_s = time.monotonic()
        ensemble.start()
        started_s = time.monotonic()
        producer.flush()
        until_read([member], 200)
        served_s = time.monotonic()
        create(muster, "after-kills")
        print(f"ZooKeeper started within {started_s - began_s:.1f} s; {served_s - started_s:.1f} s later all serve")
        record_property("served after", round(served_s - started_s, 2))
        assert member.rebalances == 1
    muster.until_all_serve()
