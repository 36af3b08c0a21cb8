"""The lag of the pool's group, looked at each second in a thread of its own: a broker may take long to respond."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from muster.gateway.client.errors import MusterError
from muster.gateway.client.kafka.groups import Member, members_of
from muster.gateway.client.kafka.leaders import TopicPartition
from muster.gateway.client.kafka.offsets import committed, log_offsets
from muster.gateway.client.kafka.requests import EARLIEST, LATEST
from muster.gateway.client.scaling.rates import PartitionLag

if TYPE_CHECKING:
    from muster.gateway.client.consuming.settings import Consumption
    from muster.gateway.client.kafka.brokers import Coordinator

log = logging.getLogger(__name__)

_EVERY_S = 1.0
_RENEW_S = 30.0
"""Topics are described anew so often, as they may get partitions."""


@dataclass(frozen=True, slots=True)
class Look:
    """A group at one moment."""

    at_s: float
    """By ``time.monotonic``, when it began."""
    rows: list[PartitionLag]
    members: list[Member]

    @property
    def lags(self) -> dict[TopicPartition, int]:
        """Unread records, by partition."""
        return {
            (each.topic, each.partition): max(each.end - (each.committed or 0), 0)
            for each in self.rows
            if each.end is not None
        }


class Observer:
    """Looks each second. ``take`` returns the newest look once."""

    def __init__(self, settings: Consumption, client_id: str) -> None:
        self._settings, self._client_id = settings, client_id
        self._newest: Look | None = None
        self.error = ""
        """Why the last look failed; empty if it did not."""
        threading.Thread(target=self._run, name="muster-pool-lag", daemon=True).start()

    def take(self) -> Look | None:
        """Return the newest look; None if there is none since the last call."""
        look, self._newest = self._newest, None
        return look

    def _run(self) -> None:
        while True:
            try:
                with _Reader(self._settings, self._client_id) as reader:
                    until_s = time.monotonic() + _RENEW_S
                    while (now_s := time.monotonic()) < until_s:
                        self._newest, self.error = reader.look(now_s), ""
                        time.sleep(max(now_s + _EVERY_S - time.monotonic(), 0))
            except (MusterError, OSError) as error:
                self.error = str(error)
                log.warning("the lag of group %s is not known now: %s", self._settings.group, error)
                time.sleep(_EVERY_S)
            except Exception as error:
                self.error = repr(error)
                log.exception("the lag of group %s cannot be read", self._settings.group)
                time.sleep(_EVERY_S)


class _Reader:
    """Reads offsets, at the coordinator and at the leaders. Use it in a ``with`` block."""

    def __init__(self, settings: Consumption, client_id: str) -> None:
        self._settings = settings
        self._closing = contextlib.ExitStack()
        cluster = settings.cluster
        self._leaders = self._closing.enter_context(cluster.leaders(client_id))
        self._coordinator: Coordinator = self._closing.enter_context(cluster.coordinator(settings.group, client_id))

    def look(self, now_s: float) -> Look:
        """Return the group as it is now. Raises MusterError or OSError.

        A partition without a committed offset has that of its first record, if it is to be read from there.
        """
        settings = self._settings
        partitions = [(topic, index) for topic in settings.topics for index in self._leaders.partitions(topic)]
        offsets = committed(self._coordinator, settings.group)
        begins: dict[TopicPartition, int] = {}
        if not settings.starts_at_end:
            without = [each for each in partitions if each not in offsets]
            begins = log_offsets(self._leaders, without, EARLIEST)
        ends = log_offsets(self._leaders, partitions, LATEST)
        members = members_of(self._coordinator, settings.group)
        owners = {partition: each.member_id for each in members for partition in each.partitions}
        rows = [
            PartitionLag(
                *each,
                offsets[each].offset if each in offsets else begins.get(each),
                ends[each],
                None,
                owners.get(each),
            )
            for each in partitions
        ]
        return Look(now_s, rows, members)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()
