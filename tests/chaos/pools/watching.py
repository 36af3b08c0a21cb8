"""Who has which partition, looked at all the time in a thread of its own."""

from __future__ import annotations

import threading
import time
from typing import Self

from muster.gateway.client.cluster import Cluster
from muster.gateway.client.errors import MusterError
from muster.gateway.client.kafka.groups import members_of
from tests.chaos.pools.check import Owners

_EVERY_S = 0.1


class Watching:
    """``with Watching(kafka, group) as watching``: ``seen`` grows meanwhile."""

    def __init__(self, kafka: Cluster, group: str) -> None:
        self._kafka, self._group = kafka, group
        self.seen: list[Owners] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watching")

    def _run(self) -> None:
        while not self._ends.is_set():
            try:
                with self._kafka.coordinator(self._group, "chaos-watching") as coordinator:
                    while not self._ends.wait(_EVERY_S):
                        members = members_of(coordinator, self._group)
                        owners = {index: each.member_id for each in members for _, index in each.partitions}
                        clients = {each.member_id: each.client_id for each in members}
                        self.seen.append(Owners(time.monotonic(), clients, owners))
            except (MusterError, OSError):  # the coordinator was killed
                self._ends.wait(_EVERY_S)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
