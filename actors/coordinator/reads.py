"""Fetch, ListOffsets and DescribeProducers from the log of a coordinator's own partition."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import UUID

from muster.actors.log.errors import NotLeader
from muster.actors.log.fetch import Fetches, LogByName
from muster.actors.log.leader_epochs import offset_for_leader_epoch
from muster.actors.log.list_offsets import list_offsets
from muster.actors.log.partition import PartitionLog
from muster.actors.log.transactions.describing import describe_producers
from muster.actors.wire.internal.fetch import FetchRequest
from muster.actors.wire.internal.listener import Peer
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import Header

log = logging.getLogger(__name__)

_Api = Callable[[Any, LogByName], Awaitable[dict[str, Any]]]
PARTITION_APIS: Mapping[int, _Api] = {2: list_offsets, 23: offset_for_leader_epoch, 61: describe_producers}


class PartitionReads:
    """Serves what gateways read from one partition, whose log is open."""

    def __init__(self, topic: str, topic_id: UUID, partition: int, partition_log: PartitionLog) -> None:
        self._log = partition_log
        self._places = {(topic_id, partition), (topic, partition)}
        self._fetches = Fetches(self._open_log, self.log_of)
        self._running: dict[tuple[Peer, int], asyncio.Task[None]] = {}

    def fetch(self, peer: Peer, token: int, request: FetchRequest) -> None:
        self._fetches.serve(peer, token, request)

    def request(self, peer: Peer, token: int, header: Header, frame: bytes) -> None:
        """Serve a request of one of PARTITION_APIS. Raises UndecodableRequest."""
        self._serve(peer, token, header, PARTITION_APIS[header.api_key], codec.decode_request(header, frame))

    def _serve(self, peer: Peer, token: int, header: Header, api: _Api, entity: Any) -> None:
        async def serve() -> None:
            try:
                body = await api(entity, self.log_of)
                version, correlation_id = header.api_version, header.correlation_id
                peer.reply(token, codec.encode_response(header.api_key, version, correlation_id, body))
            except Exception:
                log.exception("api key %d failed", header.api_key, extra=header.log_fields)
                peer.close()
            finally:
                self._running.pop((peer, token), None)

        self._running[peer, token] = asyncio.get_running_loop().create_task(serve())

    async def log_of(self, topic: UUID | str, partition: int) -> PartitionLog:
        """Return the log of that partition. Raises NotLeader if it is another one."""
        return self._open_log(topic, partition)

    def _open_log(self, topic: UUID | str, partition: int) -> PartitionLog:
        if (topic, partition) not in self._places:
            raise NotLeader(f"partition {partition} of {topic} is not served here")
        return self._log

    def cancel(self, peer: Peer, token: int) -> None:
        """Drop the request: its response is no longer needed. Tokens of anything else are ignored."""
        if task := self._running.pop((peer, token), None):
            task.cancel()
        self._fetches.cancel(peer, token)

    def left(self, peer: Peer) -> None:
        """Drop the requests of a gateway that is gone."""
        for key in [key for key in self._running if key[0] is peer]:
            self._running.pop(key).cancel()
        self._fetches.left(peer)

    def stop(self) -> None:
        """Send no more responses."""
        for task in self._running.values():
            task.cancel()
        self._fetches.stop()
