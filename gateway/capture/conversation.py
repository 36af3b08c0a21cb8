"""The traffic of one connection: which response belongs to which request, what is recorded, what is rewritten."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode, Header, UndecodableRequest, UndecodableResponse, UnknownApi
from muster.gateway.capture import advertised
from muster.gateway.capture.advertised import PRODUCE, Address
from muster.gateway.capture.recorder import Exchange, Recorder

log = logging.getLogger(__name__)

OwnAddresses = Callable[[Iterable[Address]], Awaitable[dict[Address, Address]]]
"""Returns the proxy's addresses for these brokers, without those for which it cannot listen."""

_SASL_HANDSHAKE = 17
_SOFTWARE_NAME_VERSION = 3
_UNSUPPORTED_VERSION = ErrorCode.unsupported_version.to_bytes(2, "big")
_MAX_PENDING = 10_000
"""The most unanswered requests that are remembered; no client has so many."""


@dataclass(frozen=True, slots=True)
class _Pending:
    header: Header
    exchange: Exchange | None


class Conversation:
    """Processes whole frames, without their size, in the order of each direction. No input makes it raise."""

    def __init__(self, recorder: Recorder, own_addresses: OwnAddresses) -> None:
        self._recorder = recorder
        self._own_addresses = own_addresses
        self._pending: deque[_Pending] = deque(maxlen=_MAX_PENDING)
        self._software = ""
        self._has_bare_tokens = False

    def request(self, frame: bytes) -> None:
        """Process a request before it goes to the broker."""
        try:
            header = codec.decode_header(frame)
        except (UnknownApi, UndecodableRequest):
            return
        if header.api_key == codec.API_VERSIONS and header.api_version >= _SOFTWARE_NAME_VERSION:
            self._software = getattr(_request(header, frame), "client_software_name", "") or self._software
        exchange = None
        if not self._has_bare_tokens:
            client = self._software or header.client_id or ""
            name = codec.api_name(header.api_key)
            exchange = self._recorder.request(client, name, header.api_key, header.api_version, frame)
        if header.api_key == _SASL_HANDSHAKE and header.api_version == 0:
            # SASL tokens without a header follow, and nothing marks where they end.
            self._has_bare_tokens = True
        if header.api_key == PRODUCE and getattr(_request(header, frame), "acks", 1) == 0:
            return  # gets no response
        self._pending.append(_Pending(header, exchange))

    async def response(self, frame: bytes) -> bytes:
        """Return the response for the client; nearly always the same frame."""
        pending = self._matching(frame)
        if pending is None:
            return frame
        key, version = pending.header.api_key, _version_of(pending.header, frame)
        if pending.exchange is not None:
            self._recorder.response(pending.exchange, version, frame)
        try:
            if advertised.may_change(key, version):
                return await self._rewritten(key, version, frame)
        except (UnknownApi, UndecodableResponse) as error:
            log.warning("a response of %s is passed on as it is: %s", codec.api_name(key), error)
        return frame

    def _matching(self, frame: bytes) -> _Pending | None:
        """Return the request with the response's correlation id.

        Earlier ones will get none: responses keep the order.
        """
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if len(frame) < 4 or all(each.header.correlation_id != correlation_id for each in self._pending):
            return None
        while (pending := self._pending.popleft()).header.correlation_id != correlation_id:
            pass
        return pending

    async def _rewritten(self, api_key: int, version: int, frame: bytes) -> bytes:
        correlation_id, response = codec.decode_response(api_key, version, frame)
        ours = await self._own_addresses(advertised.addresses(api_key, response))
        changed = advertised.rewritten(api_key, response, ours)
        if changed is response:
            return frame
        body = {name: getattr(changed, name) for name in changed.__dataclass_fields__}
        return codec.encode_response(api_key, version, correlation_id, body)


def _request(header: Header, frame: bytes) -> Any:
    """Return the entity; None if it cannot be decoded."""
    try:
        return codec.decode_request(header, frame)
    except (UnknownApi, UndecodableRequest):
        return None


def _version_of(header: Header, frame: bytes) -> int:
    """Return the version of the request; but 0 if a broker does not know the version of ApiVersions (KIP-511)."""
    if header.api_key == codec.API_VERSIONS and frame[4:6] == _UNSUPPORTED_VERSION:
        return 0
    return header.api_version
