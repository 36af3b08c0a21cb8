"""Sends frames over connections that live, and finds those that are shielded by a refused one before them.

A refused frame closes its connection, so what was sent behind it has not been looked at. Responses come in the order of
the requests, so the first without one is the refused frame; the others are sent again over a new connection. Behind
every batch comes a request that has to be answered.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.framing import Framer
from tests.fuzz.frames import Frame
from tests.fuzz.login import SCRAM, LoginFailed, log_in
from tests.fuzz.members import Members
from tests.fuzz.values import Values

BATCH_FRAMES = 32
MEMBERS_EVERY = 4
"""One batch of so many is of members."""
_SENTINEL_ID = 0x7A5A0000
_SENTINEL = codec.encode_request(codec.API_VERSIONS, 0, _SENTINEL_ID, "sentinel", {})
_LOGIN_S = 30.0
_LEARNT = {11: ("member_id", "generation_id"), 22: ("producer_id",), 68: ("member_id", "member_epoch")}
"""Fields of the responses to JoinGroup, InitProducerId and ConsumerGroupHeartbeat that later frames have."""
_RECENT = 4000
_REFUSED_S, _REFUSED_FOR_S = 0.1, 120.0


class Unanswered(Exception):
    """A request that is valid got no response on a new connection."""


class Refused(Unanswered):
    """The service closed the connection instead."""


@dataclass
class Totals:
    """Totals of an attack."""

    sent: int = 0
    """Frames that the service has read."""
    answered: int = 0
    refused: int = 0
    waited: int = 0
    """Frames whose connection was closed by the attacker, since no response came."""
    connections: int = 0
    of_members: int = 0
    """Answered without an error to a member beside others of its group on its connection."""
    by_api: Counter[int] = field(default_factory=Counter)

    @classmethod
    def of(cls, parts: Iterable[Totals]) -> Totals:
        """Their sum."""
        total = cls()
        for part in parts:
            total.sent += part.sent
            total.answered += part.answered
            total.refused += part.refused
            total.waited += part.waited
            total.connections += part.connections
            total.of_members += part.of_members
            total.by_api += part.by_api
        return total


class Line(asyncio.Protocol):
    """One connection of the attacker."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.responses: deque[bytes] = deque()
        self.closed = False
        self._framer = Framer(1 << 30)
        self._woken: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.responses.extend(self._framer.feed(data))
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def write(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    async def changed(self, timeout_s: float) -> bool:
        """Wait for responses or the end. False if neither came."""
        if self.responses or self.closed:
            return True
        self._woken = asyncio.get_running_loop().create_future()
        timer = asyncio.get_running_loop().call_later(timeout_s, self._wake)
        await self._woken
        timer.cancel()
        return bool(self.responses) or self.closed

    async def exchange(self, frame: bytes, timeout_s: float = _LOGIN_S) -> bytes:
        """One request, sized, and its response. Raises Unanswered or Refused."""
        self.write(len(frame).to_bytes(4, "big") + frame)
        if not await self.changed(timeout_s):
            raise Unanswered(f"no response to {frame[:40]!r}")
        if not self.responses:
            raise Refused(f"closed instead of a response to {frame[:40]!r}")
        return self.responses.popleft()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass
class Attack:
    """Sends frames at one gateway, over some connections at a time."""

    host: str
    port: int
    frames: Iterator[Frame]
    values: Values
    user: tuple[str, str] | None = None
    """With a password: each connection authenticates first."""
    mechanism: str = SCRAM
    tls: ssl.SSLContext | None = None
    lines: int = 16
    members_seed: int | None = None
    """If given, each connection also has members of groups, which live as long as the attack."""
    address: str | None = None
    """The attacker's own, which has quotas. Its connections may be refused."""
    totals: Totals = field(default_factory=Totals)
    recent: deque[bytes] = field(default_factory=lambda: deque(maxlen=_RECENT))
    """The latest frames, each with its size: what may have caused a problem."""
    patience_s: float = 2.0
    """How long a connection whose requests wait, for members or for records, is left open."""
    sentinel_s: float = 30.0
    """How long a request that must be answered may take."""
    goes: asyncio.Event = field(default_factory=_set_event)
    """While it is not set, nothing is sent."""

    async def run(self, is_over: Callable[[], bool]) -> Totals:
        """Attack until it is over. Raises Unanswered, or OSError if the gateway cannot be connected to."""
        async with asyncio.TaskGroup() as lines:
            for number in range(self.lines):
                members = None if self.members_seed is None else Members(self.members_seed + number)
                lines.create_task(self._line(is_over, members))
        return self.totals

    async def _line(self, is_over: Callable[[], bool], members: Members | None) -> None:
        line: Line | None = None
        for number in itertools.count():
            if is_over():
                break
            if members is not None and number % MEMBERS_EVERY == 0:
                line = await self.send(members.frames(BATCH_FRAMES), line)
                self.totals.of_members += members.take_answered()
            else:
                line = await self.send([next(self.frames) for _ in range(BATCH_FRAMES)], line)
        if line is not None:
            line.abort()

    async def send(self, batch: list[Frame], line: Line | None = None) -> Line:
        """Have every frame looked at; returns a connection that works. Raises Unanswered."""
        left = batch
        while True:
            await self.goes.wait()
            if line is None or line.closed:
                line = await self.connect()
            passed = await self._send_once(left, line)
            if passed is None:
                return line
            left = left[passed:]
            line = None

    async def _send_once(self, frames: list[Frame], line: Line) -> int | None:
        """None if all were looked at and the connection lives, else the number that need not be sent again."""
        data = [frame.numbered(number) for number, frame in enumerate(frames)]
        self.recent.extend(data)
        line.write(b"".join((*data, len(_SENTINEL).to_bytes(4, "big"), _SENTINEL)))
        passed = 0
        while True:
            while line.responses:
                response = line.responses.popleft()
                number = int.from_bytes(response[:4], "big")
                if number == _SENTINEL_ID:
                    self._count(frames, len(frames))
                    return None
                if number < len(frames):
                    passed = number + 1
                    self._learn(frames[number], response)
            if line.closed:
                self._count(frames, passed + 1)
                self.totals.refused += 1
                return passed + 1
            if not await line.changed(self.patience_s if frames else self.sentinel_s):
                if not frames:
                    raise Unanswered("a request that is valid")
                self.totals.waited += 1
                self._count(frames, passed + 1)
                line.abort()
                return passed + 1

    def _count(self, frames: list[Frame], number: int) -> None:
        self.totals.sent += min(number, len(frames))
        for frame in frames[:number]:
            self.totals.by_api[frame.api_key] += 1

    def _learn(self, frame: Frame, response: bytes) -> None:
        self.totals.answered += 1
        if frame.spoil or (frame.heard is None and frame.api_key not in _LEARNT):
            return
        entity = codec.decode_response(frame.api_key, frame.version, response)[1]
        if frame.heard is not None:
            frame.heard(entity)
        for name in _LEARNT.get(frame.api_key, ()):
            if (value := getattr(entity, name)) not in ("", None, -1):
                self.values.learn(name, value)

    async def connect(self) -> Line:
        """Return a connection whose client is authenticated, if there is a user. Raises OSError or Unanswered."""
        if self.address is None:
            return await self._connect()
        began_s = time.monotonic()
        while True:
            try:
                line = await self._connect()
                await line.exchange(_SENTINEL)
                return line
            except (ConnectionError, Refused):
                if time.monotonic() - began_s > _REFUSED_FOR_S:
                    raise
                await asyncio.sleep(_REFUSED_S)

    async def _connect(self) -> Line:
        loop = asyncio.get_running_loop()
        own = None if self.address is None else (self.address, 0)
        _, line = await loop.create_connection(Line, self.host, self.port, ssl=self.tls, local_addr=own)
        self.totals.connections += 1
        if self.user is not None:
            try:
                await log_in(line.exchange, self.mechanism, *self.user)
            except LoginFailed as error:
                raise Unanswered(f"the login failed with {error}") from None
        return line
