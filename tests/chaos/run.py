"""One run: the cluster, the clients, the plan's faults, a quiet time in which all must recover, the check."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.chaos import plan, processes
from tests.chaos.cluster import Cluster
from tests.chaos.draining import DRAIN_S, await_load, drain
from tests.chaos.fleet import Fleet
from tests.chaos.harm import Harm
from tests.chaos.journal import Journal
from tests.chaos.observer import Describer, Observer
from tests.chaos.plan import Plan
from tests.chaos.workers.base import HEARTBEAT_MS, SESSION_MS

PROPERTIES = {
    "fault.injection.enable": "true",
    "offsets.topic.num.partitions": str(plan.OFFSETS_PARTITIONS),
    "transaction.state.log.num.partitions": str(plan.TRANSACTIONS_PARTITIONS),
    "log.actors": str(plan.LOG_ACTORS),
    "group.initial.rebalance.delay.ms": "500",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "reconciler.interval.ms": "2000",
    "offsets.topic.segment.bytes": "65536",
}
BUCKET_PROPERTIES = {"storage.object.flush.interval.ms": "10"}
TOPIC_CONFIG = {"segment.bytes": "65536"}
"""Segments are small, so that faults meet logs that are starting a new one."""
_SAMPLE_EVERY_S = 2.0
_TICK_S = 0.05


@dataclass(frozen=True, slots=True)
class Run:
    """``folder`` takes journals, logs and the storage directory; it exists and is empty."""

    plan: Plan
    folder: Path
    tree: Path
    records_per_s: int
    say: Callable[[str], None]
    drain_s: float = DRAIN_S
    """Limit of each part of the end."""
    on_bucket: bool = False
    """Whether the cluster lives on a bucket: with 503, latency, lost requests and responses."""

    def go(self) -> None:
        """Leaves the journals in ``folder/journals``. StartFailed. In any case, no process keeps running."""
        journals = self.folder / "journals"
        journals.mkdir()
        (self.folder / "plan.json").write_text(self.plan.as_json())
        journal = Journal(journals / "run.jsonl")
        transactional = self.plan.transactional_topics
        journal.write(
            "load",
            topics=self.plan.topics,
            groups=self.plan.groups,
            consumer_groups=self.plan.consumer_groups,
            shared_groups=self.plan.shared_groups,
            transactional=transactional,
        )
        seed = self.plan.seed if self.on_bucket else None
        properties = PROPERTIES | (BUCKET_PROPERTIES if self.on_bucket else {})
        cluster = Cluster(self.folder, gateways=plan.GATEWAYS, properties=properties, tree=self.tree, bucket_seed=seed)
        with cluster:
            fleet = Fleet(self.plan, cluster.bootstrap, journals, journal, self.records_per_s)
            try:
                self._load(cluster, fleet, journal, Journal(journals / "observer.jsonl"))
            finally:
                fleet.end()
        if self.on_bucket:
            self.say(f"requests to the bucket met {len(cluster.bucket_faults)} faults")

    def _load(self, cluster: Cluster, fleet: Fleet, journal: Journal, observing: Journal) -> None:
        observer = Observer(cluster.bootstrap, self.plan.topics, self.plan.groups, observing)
        observer.create_topics(TOPIC_CONFIG)
        sampler = _Sampler(cluster, journal)
        for worker in self.plan.workers:
            fleet.start(worker.name)
        journal.write("phase", name="warm")
        observer.start()
        classic = [group for group in self.plan.groups if group not in self.plan.consumer_groups]
        describer = Describer(cluster.bootstrap, classic, observing)
        describer.start()
        sampler.start()
        if not await_load(fleet, observer, self.plan.groups):
            self.say("not every group has committed")
        harm = Harm(cluster, fleet, journal)
        try:
            self._harm(fleet, harm, journal)
        finally:
            harm.end_all()
        journal.write("phase", name="quiet")
        drain(fleet, observer, self.plan.groups, journal, self.say, self.drain_s)
        describer.stop()
        observer.stop()
        sampler.stop()
        if not observer.read_logs(self.drain_s):
            self.say("the logs could not be read to their ends")
        observer.compare_ends(self.drain_s)
        observer.close()
        journal.write("alive", bad=_not_alive(cluster))
        journal.write("phase", name="end")

    def _harm(self, fleet: Fleet, harm: Harm, journal: Journal) -> None:
        """Inject the plan's faults, each at its time; time without the cluster is not counted."""
        began_s = time.monotonic()

        def until(at_s: float) -> None:
            while time.monotonic() - began_s - harm.down_s < at_s:
                harm.tick()
                fleet.look()
                time.sleep(_TICK_S)

        until(plan.WARM_S)
        journal.write("phase", name="faults")
        for fault in self.plan.faults:
            until(fault.at_s)
            self.say(str(fault))
            harm.do(fault)
        until(self.plan.quiet_at_s)


class _Sampler(threading.Thread):
    """Memory, descriptors and sockets of all processes of the cluster, every few seconds."""

    def __init__(self, cluster: Cluster, journal: Journal) -> None:
        super().__init__(name="sampler", daemon=True)
        self._cluster, self._journal = cluster, journal
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(_SAMPLE_EVERY_S):
            try:
                self._journal.write("sample", processes=processes.sample(self._cluster.pid))
            except psutil.Error as error:  # it ended while it was read
                print(f"chaos: no sample: {error}", file=sys.stderr)

    def stop(self) -> None:
        self._stopping.set()
        self.join()


def _not_alive(cluster: Cluster) -> list[str]:
    """Actors that do not serve, by ``muster status``, and names of actors without a process."""
    deadline_s = time.monotonic() + DRAIN_S
    while True:
        actors = cluster.status()["actors"]
        bad = [
            f"{actor['name']} is {actor['state']}: {actor['error']}" for actor in actors if actor["state"] != "alive"
        ]
        bad += [f"{actor['name']} has no process" for actor in actors if not psutil.pid_exists(actor["pid"] or -1)]
        if not bad or time.monotonic() > deadline_s:
            return bad
        time.sleep(1)
