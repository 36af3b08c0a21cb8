"""Clients on a cluster of hosts, with the workers, the observer and the checker of tests/chaos."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from muster.placement.hashing import partition_for
from tests.chaos.checker import check
from tests.chaos.draining import DRAIN_S, drain
from tests.chaos.fleet import Fleet
from tests.chaos.history import read_history
from tests.chaos.journal import Journal, now_s
from tests.chaos.observer import Describer, Observer
from tests.chaos.plan import Plan, Worker
from tests.chaos.rules.violation import Violation
from tests.hosts.seen import Gaps, Seen
from tests.muster_process import eventually

TOPICS = {"orders": 4, "clicks": 4}
GROUPS = {"confluent": "confluent-group", "kafka-python": "kafka-python-group"}
_PRODUCE = {"confluent": "orders", "kafka-python": "clicks"}
_MEMBERS = 2
_SERIES = 2 * 4 + 2 * 8 + 2 * 8 + _MEMBERS
"""Produce by topic; fetch and commit by group and partition; heartbeats of kafka-python's members."""
_OFFSETS_PARTITIONS = 50
_RECORDS_PER_S = 40
_ALL_S = 240.0


class Load:
    """A producer and a group of each library, with the timeouts that the library has by default."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        """``folder`` exists, is empty, and takes the journals. Creates the topics."""
        workers = [
            Worker(name=f"{library}-producer", role="producer", library=library, topics=(topic,), own_timeouts=True)
            for library, topic in _PRODUCE.items()
        ]
        workers += [
            Worker(
                name=f"{library}-{number}",
                role="consumer",
                library=library,
                topics=tuple(TOPICS),
                group=group,
                own_timeouts=True,
            )
            for library, group in GROUPS.items()
            for number in range(_MEMBERS)
        ]
        plan = Plan(seed=0, minutes=0, topics=TOPICS, workers=tuple(workers), faults=())
        self._folder = folder
        self._journal = Journal(folder / "run.jsonl")
        self._journal.write("load", topics=plan.topics, groups=plan.groups)
        observing = Journal(folder / "observer.jsonl")
        self._observer = Observer(bootstrap, plan.topics, plan.groups, observing)
        self._observer.create_topics({})
        self._describer = Describer(bootstrap, plan.groups, observing)
        self._fleet = Fleet(plan, bootstrap, folder, self._journal, _RECORDS_PER_S)
        for worker in workers:
            self._fleet.start(worker.name)
        self._observer.start()
        self._describer.start()
        self._seen = Seen(folder)

    @property
    def used(self) -> list[str]:
        """Actors without which a client would notice: log actors, and the coordinators of the groups."""
        offsets = [f"offsets-{partition_for(group, _OFFSETS_PARTITIONS)}" for group in GROUPS.values()]
        return ["log-0", "log-1", *offsets]

    def until_all_go(self, since_s: float) -> None:
        """Wait until every partition and every member has had a success since that time of the journals' clock."""

        def all_go() -> bool:
            self._fleet.look()
            return self._seen.all_since(since_s, _SERIES)

        try:
            eventually(all_go, bool, "every client continues", _ALL_S)
        except AssertionError as error:
            raise AssertionError(f"{error}; without success: {self._seen.without_success_since(since_s)}") from None

    def gaps(self, since_s: float) -> dict[str, Gaps]:
        """Return the gaps that clients saw from then until now."""
        return self._seen.gaps(since_s, now_s())

    def down(self, since_s: float) -> None:
        """All of Muster was down, from then until now: calls that waited for it did not hang."""
        self._journal.write("down", since=since_s)

    def finish(self) -> Sequence[Violation]:
        """End the load; return what the journals violate.

        Producers end, groups commit everything, members leave, logs are read.
        """
        said: list[str] = []
        drain(self._fleet, self._observer, GROUPS.values(), self._journal, said.append)
        self._describer.stop()
        self._observer.stop()
        if not self._observer.read_logs(DRAIN_S):
            said.append("the logs could not be read to their ends")
        self._observer.close()
        self._journal.write("phase", name="end")
        found = [Violation("in_time", text) for text in said]
        return [*found, *check(read_history(self._folder))]

    def end(self) -> None:
        """Kill what is left."""
        self._describer.stop()
        self._fleet.end()
