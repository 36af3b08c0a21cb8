"""The shell around one ``__transaction_state`` partition: what transactions need besides what all coordinators do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from ray.exceptions import RayError

from muster.actors.coordinator.batching import Written
from muster.actors.coordinator.shell import CoordinatorShell, WaitingRequest
from muster.actors.log.config import LogConfig
from muster.actors.log.partition import PartitionLog
from muster.actors.runtime.channels import ActorChannels
from muster.actors.runtime.errors import first_line
from muster.actors.runtime.process import now_ms
from muster.actors.transaction_state.markers import MarkerSender, Results
from muster.actors.transaction_state.metrics import TransactionMetrics
from muster.actors.transactions.codec import adapters
from muster.actors.transactions.config import TransactionConfig
from muster.actors.transactions.coordinator import TransactionCoordinator
from muster.actors.transactions.events import MarkerFailed, TransactionCompleted, TransactionDecided
from muster.actors.transactions.messages import Request, Response, Verified, failed
from muster.actors.transactions.types import MarkerRequest, Outcome
from muster.actors.wire.internal.listener import Peer
from muster.actors.wire.internal.verification import VerifyRequest, write_verified
from muster.actors.wire.kafka.codec import ErrorCode, Header
from muster.actors.wire.limited_log import LimitedLog
from muster.placement.client import Context
from muster.placement.view import TRANSACTIONS_TOPIC, ClusterView

log = logging.getLogger(__name__)

_VERIFYING = Header(api_key=-1, api_version=0, correlation_id=0, client_id=None, end=0)
_NO_CLIENT = Context(client_id=None, host="")
_FILL_AGAIN_S = 0.5


class Controller(Protocol):
    """Requests of a transaction coordinator to the controller. They raise RayError if it does not respond."""

    def producer_ids(self) -> Awaitable[range]:
        """Ids that no other process has or had."""

    def partition_counts(self, names: Collection[str]) -> Awaitable[Mapping[str, int]]:
        """See :data:`muster.actors.transaction_state.markers.PartitionCounts`."""


class TransactionsPartition(CoordinatorShell[Outcome]):
    """Serves one partition; a :class:`muster.actors.wire.internal.listener.Handler`."""

    _core: TransactionCoordinator
    _routine = frozenset((TransactionDecided, TransactionCompleted, MarkerFailed))

    def __init__(
        self,
        *,
        partition: int,
        epoch: int,
        config: TransactionConfig,
        timeout_ms: int,
        partition_log: PartitionLog,
        channels: ActorChannels,
        controller: Controller,
        topic_id: UUID,
        fail: Callable[[], None],
    ) -> None:
        """``timeout_ms``, ``fail``: as in :class:`CoordinatorShell`. The caller closes ``channels``."""
        core = TransactionCoordinator(partition=partition, epoch=epoch, config=config)
        super().__init__(
            core,
            topic=TRANSACTIONS_TOPIC,
            topic_id=topic_id,
            partition=partition,
            epoch=epoch,
            partition_log=partition_log,
            linger_ms=-1,
            timeout_ms=timeout_ms,
            fail=fail,
        )
        self._metrics = TransactionMetrics(core)
        self.observers.add(self._metrics.observe)
        self.observers.add(self._complain, [MarkerFailed])
        self.query_handlers["metrics"] = self._metrics.response
        self._channels = channels
        self._limited_log = LimitedLog(log)
        self._controller = controller
        self._filling: asyncio.Task[None] | None = None
        self._sender = MarkerSender(partition, epoch, channels, controller.partition_counts, self._marked)

    def activate(self) -> None:
        """Start serving, and continue with the markers of transactions that are decided."""
        super().activate()
        self._metrics.active()

    @property
    def coordinator(self) -> TransactionCoordinator:
        """The core. Read only."""
        return self._core

    def configure(self, config: TransactionConfig, log_config: LogConfig, timeout_ms: int) -> None:
        """Apply other configurations from now on."""
        self._core.configure(config)
        self._configure(log_config, timeout_ms)

    def follow(self, view: ClusterView) -> None:
        """Send markers by this view from now on."""
        self._channels.follow(view)

    def verify(self, peer: Peer, token: int, request: VerifyRequest) -> None:
        waiting = WaitingRequest(peer, token, _VERIFYING)
        try:
            self._call_core(waiting, request, _NO_CLIENT)
        except Exception:
            log.exception("%s: a verification failed", self._name)
            self._reply(waiting, self._refused(request))

    def _read(self, header: Header, frame: bytes) -> Request:
        return adapters.read(header, frame)

    def _write(self, header: Header, response: Response) -> bytes:
        return adapters.write(header, response)

    def _refused(self, request: Request) -> Response:
        return failed(request, ErrorCode.unknown_server_error)

    def _reply(self, waiting: WaitingRequest, response: Response) -> None:
        if isinstance(response, Verified):
            waiting.peer.send(write_verified(waiting.token, response.errors))
        else:
            super()._reply(waiting, response)

    def _written(self, writes: Sequence[Written]) -> Outcome:
        *earlier, last = writes
        for write, offset in earlier:
            self._apply(self._core.written(write, offset, now_ms()))
        return self._core.written(*last, now_ms())

    def _apply(self, outcome: Outcome) -> None:
        super()._apply(outcome)
        if self._core.needs_producer_ids and self._filling is None:
            self._filling = asyncio.get_running_loop().create_task(self._fill())

    def _send(self, outcome: Outcome) -> None:
        super()._send(outcome)
        if outcome.markers:
            self._sender.send(outcome.markers)

    def _marked(self, request: MarkerRequest, results: Results) -> None:
        if not self._failed:
            self._guarded(self._core.marked, request.transactional_id, request.decision, results, now_ms())

    def _complain(self, event: MarkerFailed, _: int) -> None:
        """Until a partition takes its marker, its producer has to wait, and no one reads what follows."""
        if event.repeated:
            name, index = event.partition
            text = "%s-%d takes no marker of %s: %s"
            what = event.transactional_id, event.error.name.upper()
            self._limited_log.warning("marker", name, text, name, index, *what)

    async def _fill(self) -> None:
        """Get producer ids before the coordinator has none left."""
        while self._core.needs_producer_ids and not self._failed:
            try:
                block = await self._controller.producer_ids()
            except RayError as error:
                text = "%s: the controller gives no producer ids now: %s"
                self._limited_log.warning("producer ids", "the controller", text, self._name, first_line(error))
                await asyncio.sleep(_FILL_AGAIN_S)
            else:
                self._core.give_producer_ids(block)
        self._filling = None

    async def stop(self) -> None:
        """See :class:`CoordinatorShell`. Markers that are under way may still be written."""
        self._sender.stop()
        await super().stop()
        if self._filling is not None:
            self._filling.cancel()
        self._limited_log.flush()
