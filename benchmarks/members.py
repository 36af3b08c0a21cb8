"""Group members reduced to a consumer's work for its group: join, sync, heartbeat, rejoin."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from muster.actors.group.codec.primitives import Writer
from muster.actors.wire.kafka.codec import ErrorCode
from tests.raw_client import Connection, Errors, request

JOIN_GROUP, SYNC_GROUP, HEARTBEAT = (11, 9), (14, 5), (12, 4)
SESSION_TIMEOUT_MS = 45_000
REBALANCE_TIMEOUT_MS = 300_000
HEARTBEAT_INTERVAL_S = 3.0
"""The default of the Java consumer."""
PROTOCOL = "range"
_TICK_S = 0.01
_ERROR_AT = 9
"""Position in a Heartbeat v4 response frame: after correlation id, tags, throttle time."""


def subscription(topic: str, padding_bytes: int = 60) -> bytes:
    """Encode a ConsumerProtocolSubscription v0, about 100 bytes, like one with a rack and owned partitions."""
    return Writer().int16(0).int32(1).string(topic).blob(bytes(padding_bytes)).bytes()


def assignment(topic: str, partitions: Sequence[int], padding_bytes: int = 60) -> bytes:
    """Encode a ConsumerProtocolAssignment v0, about 100 bytes."""
    out = Writer().int16(0).int32(1).string(topic).int32(len(partitions))
    for partition in partitions:
        out.int32(partition)
    return out.blob(bytes(padding_bytes)).bytes()


class RebalanceInProgress(RuntimeError):
    """The member has to join again."""


class Member:
    """One member over one connection, which it may share with members of other groups."""

    __slots__ = (
        "_beat", "_session_timeout_ms", "assigned", "connection", "errors", "generation", "group", "id", "is_stable",
        "topic",
    )  # fmt: skip

    def __init__(
        self,
        connection: Connection,
        group: str,
        topic: str,
        errors: Errors,
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> None:
        self.connection = connection
        self.group = group
        self.topic = topic
        self.errors = errors
        self.id = ""
        self.generation = -1
        self.assigned = b""
        self.is_stable = False
        self._beat = b""
        self._session_timeout_ms = session_timeout_ms

    async def join(self) -> Any:
        """Send JoinGroup until there is a generation (twice for a new member, KIP-394); return the response."""
        self.is_stable = False
        while True:
            response = await self.connection.call(JOIN_GROUP, self._join_body())
            self.id = response.member_id
            if response.error_code is ErrorCode.none:
                self.generation = response.generation_id
                return response
            if response.error_code is not ErrorCode.member_id_required:
                self.errors.note("JoinGroup", response.error_code)
                raise RuntimeError(f"{self.group}: JoinGroup is answered {response.error_code.name}")

    async def sync(self, assignments: Sequence[tuple[str, bytes]]) -> None:
        """Send SyncGroup, with assignments as leader; afterwards the member is stable and may heartbeat."""
        body = {
            **self._identity(),
            "protocol_type": "consumer",
            "protocol_name": PROTOCOL,
            "assignments": [{"member_id": member, "assignment": data} for member, data in assignments],
        }
        response = await self.connection.call(SYNC_GROUP, body)
        if response.error_code is ErrorCode.rebalance_in_progress:
            raise RebalanceInProgress(self.group)
        self.errors.note("SyncGroup", response.error_code)
        if response.error_code is not ErrorCode.none:
            raise RuntimeError(f"{self.group}: SyncGroup is answered {response.error_code.name}")
        self.assigned = response.assignment
        self._beat = request(HEARTBEAT, self._identity())
        self.is_stable = True

    async def alone(self) -> None:
        """Become the only member of the group."""
        await self.join()
        await self.sync([(self.id, assignment(self.topic, [0]))])

    def beat(self, answered: Callable[[Member, int, float], None]) -> None:
        """Send a heartbeat; the response calls ``answered(member, error, seconds)``."""
        sent_s = time.perf_counter()

        def take(frame: bytes) -> None:
            error = int.from_bytes(frame[_ERROR_AT : _ERROR_AT + 2], "big", signed=True)
            answered(self, error, time.perf_counter() - sent_s)

        self.connection.send(self._beat, take)

    def _identity(self) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": None,
        }

    def _join_body(self) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "session_timeout": self._session_timeout_ms,
            "rebalance_timeout": REBALANCE_TIMEOUT_MS,
            "member_id": self.id,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": PROTOCOL, "metadata": subscription(self.topic)}],
            "reason": None,
        }


class Heartbeats:
    """Sends the members' heartbeats, spread evenly over the interval, until :meth:`stop`.

    ``on_rebalance`` is called with each member that gets REBALANCE_IN_PROGRESS.
    """

    def __init__(
        self,
        members: Sequence[Member],
        errors: Errors,
        *,
        interval_s: float = HEARTBEAT_INTERVAL_S,
        on_rebalance: Callable[[Member], None] | None = None,
    ) -> None:
        self._members = members
        self._errors = errors
        self._interval_s = interval_s
        self._on_rebalance = on_rebalance
        self.latencies_s = array("d")
        self.late_s = 0.0
        """The benchmark's own largest delay behind its schedule."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()

    async def _run(self) -> None:
        began_s, sent, rate = time.perf_counter(), 0, len(self._members) / self._interval_s
        while True:
            await asyncio.sleep(_TICK_S)
            elapsed_s = time.perf_counter() - began_s
            due = int(elapsed_s * rate)
            self.late_s = max(self.late_s, elapsed_s - sent / rate if due > sent else 0.0)
            for number in range(sent, due):
                member = self._members[number % len(self._members)]
                if member.is_stable:
                    member.beat(self._answered)
            sent = due

    def _answered(self, member: Member, error: int, latency_s: float) -> None:
        self.latencies_s.append(latency_s)
        if error == ErrorCode.rebalance_in_progress and self._on_rebalance is not None:
            if member.is_stable:
                member.is_stable = False
                self._on_rebalance(member)
        else:
            self._errors.note("Heartbeat", error)
