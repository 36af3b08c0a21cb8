"""The internal listener of a log actor: produces, markers and fetches, and frames of other APIs of partitions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Any

from muster.actors.log.fetch import Fetches
from muster.actors.log.partitions import Partitions
from muster.actors.log.produces import Produce
from muster.actors.log.transactions.verification import Transaction
from muster.actors.wire.internal.envelope import SeenLease
from muster.actors.wire.internal.fetch import FetchRequest
from muster.actors.wire.internal.leader_epochs import LeaderEpoch, write_epochs
from muster.actors.wire.internal.listener import Peer
from muster.actors.wire.internal.markers import Marker, write_marked
from muster.actors.wire.internal.produce import ProducedPartition, ProduceRequest, write_produced
from muster.actors.wire.internal.queries import Handler, QueryHandlers
from muster.actors.wire.internal.verification import VerifyRequest
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode, Header, UndecodableRequest, UnknownApi
from muster.placement.client import Context

log = logging.getLogger(__name__)

_Serve = Callable[[Any], Awaitable[dict[str, Any]]]


class LogServer:
    """A :class:`muster.actors.wire.internal.listener.Handler`. Requests start in the order in which they arrive."""

    def __init__(self, partitions: Partitions) -> None:
        self._serve: dict[int, _Serve] = {
            2: partitions.list_offsets,
            21: partitions.delete_records,
            23: partitions.offset_for_leader_epoch,
            61: partitions.describe_producers,
        }
        self._peers: set[Peer] = set()
        self._leader_epochs = partitions.leader_epochs
        partitions.on_leader_epoch = self._opened
        self._running: set[asyncio.Task[None]] = set()
        self._place = partitions.place
        self._mark = partitions.mark
        self._fetches = Fetches(partitions.open_log, partitions.log_by_id)
        self._queries = QueryHandlers()
        self.query_handlers["append_times"] = partitions.append_times
        self.query_handlers["log_health"] = lambda _: {"corrupt_segments": partitions.corrupt_segments}

    @property
    def query_handlers(self) -> dict[str, Handler]:
        """Handlers of queries other than Kafka's APIs, by name; callers may add to it."""
        return self._queries.handlers

    def joined(self, peer: Peer) -> None:
        if not peer.is_gateway:
            return
        self._peers.add(peer)
        peer.send(write_epochs(self._leader_epochs()))

    def _opened(self, epoch: LeaderEpoch) -> None:
        for peer in self._peers:
            peer.send(write_epochs([epoch]))

    def left(self, peer: Peer) -> None:
        self._peers.discard(peer)
        self._fetches.left(peer)
        self._queries.left(peer)

    def query(self, peer: Peer, token: int, query: dict[str, Any]) -> None:
        self._queries.query(peer, token, query)

    def heartbeats_seen(self, peer: Peer, leases: list[SeenLease]) -> None:
        raise ValueError("a log has no members")

    def lease_confirmed(self, peer: Peer, lease: int) -> None:
        raise ValueError("a log gives no leases")

    def cancel(self, peer: Peer, token: int) -> None:
        """Cancel a waiting fetch or query; a request that writes always completes."""
        self._queries.cancel(peer, token)
        self._fetches.cancel(peer, token)

    def markers(self, peer: Peer, token: int, markers: list[Marker]) -> None:
        placed = [self._mark(*partition, marker) for marker in markers for partition in marker.partitions]

        def respond(marked: Sequence[ProducedPartition]) -> None:
            codes = (_marker_error(each.error_code) for each in marked)
            peer.send(write_marked(token, [list(islice(codes, len(marker.partitions))) for marker in markers]))

        Produce(placed, respond)

    def produce(self, peer: Peer, token: int, request: ProduceRequest) -> None:
        partitions, transactional_id, version, knows_abortable = request
        transaction = None if transactional_id is None else Transaction(transactional_id, version, knows_abortable)
        placed = [self._place(topic_id, partition, records, transaction) for topic_id, partition, records in partitions]
        Produce(placed, lambda produced: peer.send(write_produced(token, produced)))

    def verify(self, peer: Peer, token: int, request: VerifyRequest) -> None:
        raise ValueError("a log decides no transactions")

    def fetch(self, peer: Peer, token: int, request: FetchRequest) -> None:
        self._fetches.serve(peer, token, request)

    def request(self, peer: Peer, token: int, context: Context, frame: bytes) -> None:
        try:
            header = codec.decode_header(frame)
            serve = self._serve[header.api_key]
            entity = codec.decode_request(header, frame)
        except (UndecodableRequest, UnknownApi, KeyError) as error:
            log.warning("a gateway sent what cannot be read: %r", error)
            peer.close()
            return
        task = asyncio.get_running_loop().create_task(self._respond(peer, token, header, serve, entity))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _respond(self, peer: Peer, token: int, header: Header, serve: _Serve, entity: Any) -> None:
        try:
            body = await serve(entity)
            frame = codec.encode_response(header.api_key, header.api_version, header.correlation_id, body)
        except Exception:
            log.exception("api key %d failed", header.api_key, extra=header.log_fields)
            peer.close()
            return
        peer.reply(token, frame)


def _marker_error(error: ErrorCode) -> ErrorCode:
    """WriteTxnMarkers names topics, so it has no error for an unknown id."""
    return ErrorCode.unknown_topic_or_partition if error is ErrorCode.unknown_topic_id else error
