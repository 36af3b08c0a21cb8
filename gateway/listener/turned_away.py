"""Clients whose requests this gateway does not serve: which, why, and which setting helps.

As Kafka 4 (KIP-896), Muster has no protocol versions from before Kafka 2.1. A client that does not look at ApiVersions
sends them all the same, is disconnected, and connects again: its own log says no more than that.
"""

from __future__ import annotations

from typing import NamedTuple

from muster.actors.wire.kafka import codec
from muster.gateway.listener.complaints import BadRequest, Cause

MAX_CLIENTS, MAX_PER_HOST = 50, 10
"""Limits of the clients that are kept: all names are a client's choice."""
FORGET_MS = 24 * 3_600_000
"""A client that was not seen for so long makes room for others, as one does that came once."""
_MAX_ID_CHARS = 100
_CLIENT_ID = 8
"""Where a request's client id begins, in each version of its header."""
_OLD = (
    "let it speak the protocol of Kafka 2.1 or later: in sarama config.Version = sarama.V2_1_0_0, in Telegraf "
    'kafka_version = "2.1.0" (version in its outputs, and in older releases); or use a newer release of the client'
)
_NEW = "let it ask with ApiVersions which versions are served; in librdkafka, leave api.version.request at its default"
_NO_API = "nothing in the client helps: docs/compatibility.md has the APIs that are not served"


class Client(NamedTuple):
    """Identity of a client."""

    host: str
    client_id: str | None
    """Its first characters, if it is long."""
    api_key: int


class TurnedAway(NamedTuple):
    """State of a client."""

    version: int
    """Version of its latest request."""
    mend: str
    """Remedy: a setting with which the client speaks a protocol that is served."""
    times: int
    """Connections that were closed."""
    last_ms: int
    """Wall clock."""


class TurnedAwayClients:
    """Turned away clients of one gateway. Bounded."""

    def __init__(self) -> None:
        self._known: dict[Client, TurnedAway] = {}
        """The longest unseen first."""

    def refuse(self, frame: bytes, host: str, now_ms: int, served: range | None) -> BadRequest:
        """Count who sent this request, whose API or version is not served. Returns the error that ends the connection.

        The log gets it once for each client that is kept, and as often as its limit allows of all others. ``served``:
        the versions of the API, if there are any.
        """
        api_key, version = (int.from_bytes(frame[at : at + 2], "big", signed=True) for at in (0, 2))
        name = _name(api_key)
        if name is None or version < 0:
            text = f"{name or f'api key {api_key}'} version {version} is not served"
            return BadRequest(Cause.NOT_SERVED, text, name or "unknown")
        client = Client(host, _client_id(frame), api_key)
        others = "" if served is None else f", {served[0]} to {served[-1]} are"
        mend = _NO_API if served is None else _OLD if version < served[0] else _NEW
        text = f"{name} version {version} of client {client.client_id!r} is not served{others}; {mend}"
        return BadRequest(Cause.NOT_SERVED, text, name, self._count(client, version, mend, now_ms))

    def _count(self, client: Client, version: int, mend: str, now_ms: int) -> bool | None:
        """Whether it is new; None if there are so many that it is not kept, or in the place of another one."""
        known = self._known.pop(client, None)
        if known is not None:
            self._known[client] = TurnedAway(version, mend, known.times + 1, now_ms)
            return False
        of_host = [each for each in self._known if each.host == client.host]
        rivals = of_host if len(of_host) >= MAX_PER_HOST else [*self._known] if len(self._known) >= MAX_CLIENTS else []
        if rivals:
            gone = next((each for each in rivals if self._makes_room(each, now_ms)), None)
            if gone is None:
                return None
            del self._known[gone]
        self._known[client] = TurnedAway(version, mend, 1, now_ms)
        return None if rivals else True

    def _makes_room(self, client: Client, now_ms: int) -> bool:
        """Whether it is none that tries again and again, as a real client does."""
        known = self._known[client]
        return known.times == 1 or now_ms - known.last_ms >= FORGET_MS

    def rows(self) -> list[dict[str, object]]:
        """One for each, the latest first, with what helps: of ``muster status --json``."""
        return [
            {
                "client_id": client.client_id,
                "host": client.host,
                "api": _name(client.api_key),
                "version": known.version,
                "times": known.times,
                "last_ms": known.last_ms,
                "mend": known.mend,
            }
            for client, known in reversed(self._known.items())
        ]


def _name(api_key: int) -> str | None:
    """None if the key is none of Kafka's."""
    try:
        return codec.api_name(api_key)
    except KeyError:
        return None


def _client_id(frame: bytes) -> str | None:
    """Whatever of it the frame has."""
    at = _CLIENT_ID + 2
    length = int.from_bytes(frame[_CLIENT_ID:at], "big", signed=True)
    return None if length < 0 else frame[at : at + length].decode(errors="replace")[:_MAX_ID_CHARS]
