"""The shell around one ``__consumer_offsets`` partition: socket and log outside, the pure core inside.

The shell reads a request, lets the core decide, appends the core's records, waits until they are durable, and sends
the responses. It contains no rules of the group protocol. If the log fails, the process informs its clients and exits.
The successor replays the log, which is the only form of recovery.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from muster.actors.group.codec import adapters
from muster.actors.group.config import GroupConfig
from muster.actors.group.coordinator import Coordinator
from muster.actors.group.events import ROUTINE, Event
from muster.actors.group.messages import HeartbeatResponse, Request, Response, failed
from muster.actors.group.types import GroupId, MemberId, Outcome, Record, Token, WriteId
from muster.actors.log.commit import Done
from muster.actors.log.config import LogConfig
from muster.actors.log.errors import LogError, NotLeader
from muster.actors.log.fetch import list_offsets
from muster.actors.log.fetches import Fetches
from muster.actors.log.format.records import Record as LogRecord
from muster.actors.log.partition import PartitionLog
from muster.actors.log.progress import append_times
from muster.actors.log.upkeep.schedule import Upkeep
from muster.actors.offsets.batching import Batch, Lingering, batches
from muster.actors.offsets.leases import Leases
from muster.actors.offsets.metrics import PartitionMetrics
from muster.actors.runtime.memory import gc_paused
from muster.actors.runtime.process import now_ms
from muster.actors.wire import codec, envelope
from muster.actors.wire.codec import Body, ErrorCode, Header, UndecodableRequest, UnknownApi
from muster.actors.wire.envelope import SeenLease
from muster.actors.wire.fetching import FetchRequest
from muster.actors.wire.limited_log import LimitedLog
from muster.actors.wire.markers import Marker
from muster.actors.wire.producing import ProduceRequest
from muster.actors.wire.queries import Handler, QueryHandlers
from muster.actors.wire.server import Peer
from muster.placement.client import Context, of_client
from muster.placement.mapping.registration import Change, Position, Registration, RegistrationUpdate
from muster.placement.view import OFFSETS_TOPIC, ClusterView, Topic

log = logging.getLogger(__name__)

LIST_OFFSETS = 2


class UpdateSink(Protocol):
    """Where registrations go besides the gateways: ZooKeeper (write-behind), table ``registrations``. Never raises."""

    def put(self, updates: tuple[Change, ...]) -> None: ...


class _WaitingRequest(NamedTuple):
    peer: Peer
    token: int
    header: Header


class OffsetsPartition:
    """Serves one partition; a :class:`muster.actors.wire.server.Handler`."""

    def __init__(
        self,
        *,
        partition: int,
        epoch: int,
        config: GroupConfig,
        partition_log: PartitionLog,
        sink: UpdateSink,
        topic_id: UUID,
        fail: Callable[[], None],
    ) -> None:
        """``fail`` is called shortly after the log or a step has failed. A successor must then replay the log."""
        self.partition = partition
        self.epoch = epoch
        self._log = partition_log
        self._core = Coordinator(partition=partition, epoch=epoch, config=config, new_id=lambda: str(uuid.uuid4()))
        self.sinks: list[UpdateSink] = [sink]
        """Where registration changes go besides the gateways. Add before ``activate``."""
        self._topics: Mapping[str, Topic] = {}
        self._places = {(topic_id, partition), (OFFSETS_TOPIC, partition)}
        self._fail = fail
        self._peers: set[Peer] = set()
        self._waiting_requests: dict[Token, _WaitingRequest] = {}
        self._reads: dict[tuple[Peer, int], asyncio.Task[None]] = {}
        self._fetches = Fetches(self._open_log, self._log_of)
        self._next_token = 0
        self._leases = Leases()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms: int | None = None
        self._appending: dict[Done, asyncio.TimerHandle] = {}
        """Appends that are not durable yet, and the timer that declares each one late."""
        self._failed = False
        self._limited_log = LimitedLog(log)
        self._lingering = Lingering(
            config.group_coordinator_append_linger_ms, lambda: partition_log.config.max_batch_bytes, self._start_write
        )
        self._commit_timeout_s = config.offsets_commit_timeout_ms / 1000
        self.events: Counter[str] = Counter()
        self._metrics = PartitionMetrics(partition, epoch, self._core)
        self.observe: list[Callable[[Event, int], None]] = [self._metrics.observe]
        """Called with every event of the core and its time, ms since the Unix epoch. Add before ``activate``."""
        self._upkeep = Upkeep(
            self._logs,
            retention_interval_ms=partition_log.config.log_retention_check_interval_ms,
            cleaner_interval_ms=partition_log.config.log_cleaner_backoff_ms,
        )
        self._queries = QueryHandlers()
        self.query_handlers["heard"] = lambda query: {}
        self.query_handlers["metrics"] = self._metrics.response
        self.query_handlers["append_times"] = lambda query: append_times(query, self._log_of, now_ms)

    @property
    def query_handlers(self) -> dict[str, Handler]:
        """Handlers of queries other than Kafka's APIs, by name; callers may add to it."""
        return self._queries.handlers

    def configure(self, config: GroupConfig, log_config: LogConfig) -> None:
        """Apply other configurations from now on. The linger does not change."""
        self._core.configure(config)
        self._commit_timeout_s = config.offsets_commit_timeout_ms / 1000
        self._log.config = log_config
        self._upkeep.configure(
            retention_interval_ms=log_config.log_retention_check_interval_ms,
            cleaner_interval_ms=log_config.log_cleaner_backoff_ms,
        )

    def load(self) -> int:
        """Replay the log into the core. Blocks. Returns the number of records in the log.

        The core gets only the last record of each key, which is what a compacted log would hold.
        """
        count = 0
        latest: dict[bytes, LogRecord] = {}
        with gc_paused():
            for entry in self._log.replay():
                latest[entry.key or b""] = entry
                count += 1
            for key, entry in latest.items():
                self._core.replay(entry.offset, Record(key, entry.value), entry.timestamp_ms)
        return count

    def activate(self) -> None:
        """Start serving: members get a full session timeout from now."""
        self._apply(self._core.loaded(now_ms()))
        self._metrics.active()
        self._upkeep.start()

    @property
    def coordinator(self) -> Coordinator:
        """The core. Read only."""
        return self._core

    def registrations(self) -> tuple[Registration, ...]:
        """Which client consumes for which group, as this coordinator knows it now."""
        return self._core.registrations()

    def joined(self, peer: Peer) -> None:
        self._peers.add(peer)
        registrations = self._core.registrations()
        peer.send(envelope.write_updates(self.partition, self.epoch, registrations, snapshot=True))

    def left(self, peer: Peer) -> None:
        self._peers.discard(peer)
        for key in [key for key in self._reads if key[0] is peer]:
            self._reads.pop(key).cancel()
        self._fetches.left(peer)
        self._queries.left(peer)
        unreported, confirmed = self._leases.left(peer)
        if unreported and not self._failed:
            self._guarded(lambda: self._core.seen(unreported, now_ms()))
        self._confirm(confirmed)

    def query(self, peer: Peer, token: int, query: dict[str, Any]) -> None:
        self._queries.query(peer, token, query)

    def cancel(self, peer: Peer, token: int) -> None:
        if task := self._reads.pop((peer, token), None):
            task.cancel()
        self._fetches.cancel(peer, token)
        self._queries.cancel(peer, token)

    def heartbeats_seen(self, peer: Peer, leases: list[SeenLease]) -> None:
        if not self._failed:
            at_ms = now_ms()
            self._guarded(lambda: self._core.seen(self._leases.seen(peer, leases, at_ms), at_ms))

    def lease_confirmed(self, peer: Peer, lease: int) -> None:
        self._confirm(self._leases.confirmed(peer, lease))

    def _confirm(self, groups: Collection[GroupId]) -> None:
        if groups and not self._failed:
            self._guarded(lambda: self._core.leases_confirmed(groups, now_ms()))

    def request(self, peer: Peer, token: int, context: Context, frame: bytes) -> None:
        try:
            header = codec.decode_header(frame)
            if header.api_key == LIST_OFFSETS:
                self._list_offsets(_WaitingRequest(peer, token, header), codec.decode_request(header, frame))
                return
            request = adapters.read(header, frame)
        except (UndecodableRequest, UnknownApi) as error:
            log.warning("a gateway forwarded what cannot be read: %s", error)
            peer.close()
            return
        waiting = _WaitingRequest(peer, token, header)
        try:
            self._call_core(waiting, request, of_client(context, header.client_id))
        except Exception:
            log.exception("api key %d version %d failed", header.api_key, header.api_version)
            response = failed(request, ErrorCode.unknown_server_error)
            waiting.peer.reply(waiting.token, adapters.write(header, response))

    def _call_core(self, waiting: _WaitingRequest, request: Request, context: Context) -> None:
        token = Token(self._next_token)
        self._next_token += 1
        self._waiting_requests[token] = waiting
        try:
            outcome = self._core.step(request, context, token, now_ms())
        except Exception:
            del self._waiting_requests[token]
            raise
        self._guarded(lambda: outcome)

    def produce(self, peer: Peer, token: int, request: ProduceRequest) -> None:
        raise ValueError("only the coordinator writes to its partition")

    def markers(self, peer: Peer, token: int, markers: list[Marker]) -> None:
        raise ValueError("there are no transactions with offsets")

    def fetch(self, peer: Peer, token: int, request: FetchRequest) -> None:
        self._fetches.serve(peer, token, request)

    def _list_offsets(self, waiting: _WaitingRequest, entity: Any) -> None:
        async def serve() -> None:
            try:
                self._reply(waiting, await list_offsets(entity, self._log_of))
            except Exception:
                log.exception("api key %d failed", waiting.header.api_key)
                waiting.peer.close()
            finally:
                self._reads.pop((waiting.peer, waiting.token), None)

        self._reads[waiting.peer, waiting.token] = asyncio.get_running_loop().create_task(serve())

    async def _log_of(self, topic: UUID | str, partition: int) -> PartitionLog:
        return self._open_log(topic, partition)

    def _open_log(self, topic: UUID | str, partition: int) -> PartitionLog:
        if (topic, partition) not in self._places:
            raise NotLeader(f"partition {partition} of {topic} is not served here")
        return self._log

    async def _logs(self) -> list[PartitionLog]:
        return [self._log]

    def _reply(self, waiting: _WaitingRequest, body: Body) -> None:
        header = waiting.header
        frame = codec.encode_response(header.api_key, header.api_version, header.correlation_id, body)
        waiting.peer.reply(waiting.token, frame)

    def _respond(
        self, waiting: _WaitingRequest, response: Response, leased: tuple[GroupId, MemberId] | None = None
    ) -> None:
        header = waiting.header
        if isinstance(response, HeartbeatResponse):
            correlation_id = header.correlation_id.to_bytes(4, "big", signed=True)
            frame = correlation_id + _heartbeat_tail(header.api_version, response)
            if leased is None or waiting.peer not in self._peers:
                waiting.peer.reply(waiting.token, frame)
            else:
                self._leases.reply(waiting.peer, waiting.token, frame, *leased)
        else:
            waiting.peer.reply(waiting.token, adapters.write(header, response))

    def _apply(self, outcome: Outcome) -> None:
        confirmed = self._leases.revoke(outcome.revoked) if outcome.revoked else ()  # before all else that is sent
        fits = outcome.write is None or self._begin_write(outcome.records, outcome.write)
        if outcome.updates:  # before the responses: no client acts on one before the gateways have the update
            self._publish(outcome.updates)
        if outcome.replies:
            leased = {token: (group, member) for token, group, member in outcome.leases}
            for token, response in outcome.replies:
                waiting = self._waiting_requests.pop(token, None)
                if waiting is not None:
                    self._respond(waiting, response, leased.get(token))
        if outcome.events:
            self._report(outcome.events)
        if outcome.write is not None and not fits:
            # A refused write, not a failed log: no later step depends on this one yet.
            self._apply(self._core.write_failed(outcome.write, ErrorCode.message_too_large, now_ms()))
        self._confirm(confirmed)
        self._arm()

    def _report(self, events: Iterable[Event]) -> None:
        """Report the events of one step, all with the same time."""
        happened_ms = now_ms()
        for event in events:
            self.events[type(event).__name__] += 1
            if not isinstance(event, ROUTINE):
                log.info("%s", event)
            elif log.isEnabledFor(logging.DEBUG):
                log.debug("%s", event)
            for observer in self.observe:
                try:
                    observer(event, happened_ms)
                except Exception:
                    log.exception("partition %d: %s is not counted", self.partition, event)

    def _begin_write(self, records: Sequence[Record], write: WriteId) -> bool:
        """Pass the records to the log, in the order of the core's steps. False if the batch exceeds the log's limit."""
        limit_bytes = self._log.config.max_batch_bytes
        chunks = batches(records, limit_bytes)
        if chunks is None:
            text = "partition %d: %d records do not fit %d bytes"
            self._limited_log.warning("too large", "groups", text, self.partition, len(records), limit_bytes)
            return False
        self._lingering.add(write, chunks)
        return True

    def _start_write(self, first: WriteId, last: WriteId, chunks: list[Batch]) -> None:
        """Pass the batches to the log. The outcome of the last one is that of all.

        Uses no tasks: in a burst of requests every turn of the event loop is long, and each task adds turns.
        """
        if self._failed:
            return
        loop = asyncio.get_running_loop()
        try:
            for chunk in chunks:
                done = self._log.enqueue_records(chunk.records, now_ms()).done
        except Exception as error:
            loop.call_soon(self._append_failed, first, error)
            return
        self._watch(first, done, self._commit_timeout_s)
        done.add_done_callback(lambda done: self._append_ended(first, last, done))

    def _watch(self, first: WriteId, done: Done, timeout_s: float) -> None:
        self._appending[done] = asyncio.get_running_loop().call_later(timeout_s, self._append_is_late, first, done)

    def _publish(self, updates: tuple[RegistrationUpdate, ...]) -> None:
        message = envelope.write_updates(self.partition, self.epoch, updates, snapshot=False)
        for peer in self._peers:
            peer.send(message)
        changes = tuple(update for update in updates if not isinstance(update, Position))
        if changes:
            for sink in self.sinks:
                sink.put(changes)

    def _append_ended(self, first: WriteId, last: WriteId, done: Done) -> None:
        self._appending.pop(done).cancel()
        if (error := done.result()) is not None:
            self._append_failed(first, error)
        elif not self._failed:
            self._lingering.ended()
            self._guarded(lambda: self._core.written(last, now_ms()))

    def _append_failed(self, first: WriteId, error: Exception) -> None:
        code = error.code if isinstance(error, LogError) else ErrorCode.not_coordinator
        trace = None if isinstance(error, LogError) else error
        if not self._failed:  # the other pending writes fail, too
            log.error("partition %d: append failed, the actor ends: %s", self.partition, error, exc_info=trace)
        self._give_up(first, code)

    def _append_is_late(self, first: WriteId, done: Done) -> None:
        """Give up if the disk takes too long. Waiting for the event loop in a burst of requests does not count."""
        left_s = self._commit_timeout_s - self._log.commit_s
        if left_s > 0:
            self._watch(first, done, left_s)
            return
        log.error("partition %d: an append takes longer than offsets.commit.timeout.ms", self.partition)
        self._give_up(first, ErrorCode.request_timed_out)

    def _guarded(self, step: Callable[[], Outcome]) -> None:
        """Apply a step without a request to answer. If it fails, no client can be informed: the actor exits."""
        try:
            self._apply(step())
        except Exception:
            log.exception("partition %d failed, the actor ends", self.partition)
            self._give_up(None, ErrorCode.not_coordinator)

    def _give_up(self, write: WriteId | None, error: ErrorCode) -> None:
        """The core's state may be ahead of the log: answer all requests, then let a successor replay the log."""
        if self._failed:
            return
        self._failed = True
        asyncio.get_running_loop().call_later(0.05, self._fail)
        if write is not None:
            self._respond_to_last(self._core.write_failed(write, error, now_ms()))
        self._respond_to_last(self._core.resign(now_ms()))

    def _respond_to_last(self, outcome: Outcome) -> None:
        self._leases.revoke(outcome.revoked)
        self._report(outcome.events)
        for token, response in outcome.replies:
            if waiting := self._waiting_requests.pop(token, None):
                self._respond(waiting, response)

    def _arm(self) -> None:
        due_ms = self._core.next_deadline_ms()
        if due_ms == self._timer_at_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at_ms = None, due_ms
        if due_ms is not None:
            delay_s = max(0.0, (due_ms - now_ms()) / 1000)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = self._timer_at_ms = None
        self._guarded(lambda: self._core.tick(now_ms()))

    def follow(self, view: ClusterView) -> None:
        """Delete the offsets of topics that were deleted or recreated since the last view."""
        gone = {
            name
            for name, topic in self._topics.items()
            if name not in view.topics or view.topics[name].topic_id != topic.topic_id
        }
        self._topics = view.topics
        if gone:
            self._guarded(lambda: self._core.topics_deleted(gone, now_ms()))

    async def stop(self) -> None:
        """Answer all waiting requests with NOT_COORDINATOR, write what is pending, close the log.

        After a failure of the log, there is nothing left to answer or write.
        """
        if self._timer is not None:
            self._timer.cancel()
        if not self._failed:
            self._apply(self._core.resign(now_ms()))
            self._lingering.flush()
        if self._appending and not self._failed:
            await asyncio.wait([*self._appending], timeout=5)
        self._fetches.stop()
        for task in self._reads.values():
            task.cancel()
        self._queries.stop()
        self._limited_log.flush()
        await self._upkeep.stop()
        await self._log.close()


@cache
def _heartbeat_tail(api_version: int, response: HeartbeatResponse) -> bytes:
    """A heartbeat response without its correlation id: there are only as many as errors and versions."""
    frame = codec.encode_response(adapters.HEARTBEAT, api_version, 0, adapters.encode(api_version, response))
    return frame[4:]
