"""Forwarding of group requests to the actor that owns the group, and the response while it is down."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from muster.actors.group.apis.arguments import check_arguments
from muster.actors.group.codec import adapters
from muster.actors.group.errors import ApiError
from muster.actors.wire.internal.channel import ChannelLost, OnLease
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import Body, ErrorCode
from muster.actors.wire.kafka.into import Into
from muster.gateway.apis.coordinators import REQUEST_TIMEOUT_S, call_owner
from muster.gateway.listener.api import APIS, Call, Cancel, Reply, Responder
from muster.placement.client import Context
from muster.placement.view import OFFSETS

log = logging.getLogger(__name__)

MAX_PEEKED = 8_192
"""Elements of a request that is forwarded as it is: to look at so many takes a millisecond or two."""


def _group_id(call: Call) -> str:
    group_id: str = call.entity().group_id
    return group_id


def peeked(call: Call, into: Into) -> Any:
    """Return what is needed of a request to forward it, read once; None if it has too many elements for that.

    Raises codec.UndecodableRequest.
    """
    if call.peeked is None and not call.is_large:
        with suppress(codec.TooManyElements):
            call.peeked = codec.decode_request(call.header, call.frame, MAX_PEEKED, into)
    return call.peeked


def error_body(call: Call, error: ErrorCode) -> Body:
    """See :data:`muster.gateway.listener.api.ErrorBody`."""
    return adapters.error_body(call.header.api_key, call.header.api_version, call.entity(), error)


def down_error(call: Call, down: ErrorCode = ErrorCode.coordinator_load_in_progress) -> ErrorCode:
    """Return the client's error while its group's actor is down or starting, as Kafka responds while loading.

    Errors of the request itself take precedence, as in Kafka.
    """
    header = call.header
    request = adapters.decode(header.api_key, header.api_version, call.entity())
    context = Context(client_id=header.client_id, host=call.connection.host)
    try:
        check_arguments(call.gateway.group_config, request, context)
    except ApiError as refused:
        return refused.error
    return down


def _not_parked(call: Call) -> float:
    return 0.0


def _always(call: Call) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Whole:
    """Forwards requests about one group unchanged. One that cannot be decoded stops here and harms no other client."""

    down: ErrorCode = ErrorCode.coordinator_load_in_progress
    """The error for a valid request while the actor is down."""
    parked_s: Callable[[Call], float] = _not_parked
    """How long a request may wait for other members."""
    on_lease: Callable[[Call], OnLease | None] | None = None
    group_id: Callable[[Call], str] = _group_id
    fits: Callable[[Call], bool] = _always
    """Whether a request can be forwarded as it is; :meth:`serve` is only called if it can."""

    async def serve(self, call: Call) -> Reply | None:
        """Return the response; wait for an actor that has just started."""
        group_id = self.group_id(call)
        saw_group(call, group_id)
        frame = await call_coordinator(call, group_id, call.frame, self.parked_s(call), self._on_lease(call))
        return Reply((frame,)) if frame is not None else self._down(call)

    def forward(self, call: Call, responder: Responder) -> Cancel | None:
        """Serve the call without a task, if it fits and the actor is connected."""
        if not self.fits(call):
            return None
        group_id = self.group_id(call)
        gateway = call.gateway
        partition = gateway.partition_of(group_id)
        channel = gateway.forwarder.offsets(partition)
        if channel is None:
            return None
        saw_group(call, group_id)

        def on_response(frame: bytes | ChannelLost) -> None:
            if not isinstance(frame, ChannelLost):
                responder.reply(Reply((frame,)))
                return
            gateway.metrics.forward_error(f"offsets-{partition}")
            try:
                responder.reply(self._down(call))
            except Exception as error:
                responder.fail(error)

        timeout_s = self.parked_s(call) + REQUEST_TIMEOUT_S
        on_lease = self._on_lease(call)
        token = channel.send(call.connection.context, call.frame, on_response, timeout_s=timeout_s, on_lease=on_lease)
        return partial(channel.cancel, token)

    def _on_lease(self, call: Call) -> OnLease | None:
        return None if self.on_lease is None else self.on_lease(call)

    def _down(self, call: Call) -> Reply:
        return call.reply(error_body(call, down_error(call, self.down)))


def saw_group(call: Call, group_id: str) -> None:
    """Record evidence for attribution, if the API is evidence: this connection works for that group.

    All of these APIs require the right to READ the group.
    """
    connection = call.connection
    if not APIS[call.header.api_key].is_evidence:
        return
    call.gateway.account.group_request(connection.attribution, connection.host, call.header.client_id, group_id)


async def call_coordinator(
    call: Call, group_id: str, frame: bytes, parked_s: float = 0.0, on_lease: OnLease | None = None
) -> bytes | None:
    """Return the response of the group's actor to a frame; None if the actor is down or the channel was lost.

    JoinGroup and SyncGroup wait for other members, at most for ``parked_s``.
    """
    return await call_owner(call, call.gateway.partition_of(group_id), OFFSETS, frame, parked_s, on_lease)


async def call_each(
    call: Call, groups: Iterable[str | None], body_of: Any, version: int
) -> list[tuple[list[str | None], bytes | None]]:
    """Split a request about several groups by their partitions: (groups, response frame or None) for each."""
    gateway, header = call.gateway, call.header
    parts: dict[int, list[str | None]] = {}
    for group_id in dict.fromkeys(groups):
        parts.setdefault(gateway.partition_of(group_id or ""), []).append(group_id)

    async def send(members: list[str | None]) -> tuple[list[str | None], bytes | None]:
        frame = codec.encode_request(header.api_key, version, header.correlation_id, header.client_id, body_of(members))
        return members, await call_coordinator(call, members[0] or "", frame)

    return list(await asyncio.gather(*(send(members) for members in parts.values())))
