"""A client of ``GET /v1/events``."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiohttp import ClientResponse, ClientSession


class Sent(NamedTuple):
    """A block of the stream: an event, or a comment with an id."""

    kind: str
    id: str
    values: dict[str, Any]


class Stream:
    """The events of a response, one after the other."""

    def __init__(self, response: ClientResponse) -> None:
        self.response = response
        self.id = ""

    async def next(self, *kinds: str) -> Sent:
        """Return the next event of these kinds, or of any. Raises EOFError at the end."""
        while True:
            found = await self.block()
            if found.kind in kinds or (not kinds and found.kind):
                return found

    async def place(self) -> str:
        """Return the id of the next comment."""
        while (found := await self.block()).kind:
            pass
        return found.id

    async def block(self) -> Sent:
        """Return what comes next; without a kind if it is a comment."""
        kind, place, data = "", "", "{}"
        while True:
            line = (await self.response.content.readline()).decode()
            if not line:
                raise EOFError
            name, _, value = line.rstrip("\n").partition(":")
            match name:
                case "event":
                    kind = value.strip()
                case "id":
                    place = self.id = value.strip()
                case "data":
                    data = value.strip()
            if line == "\n":
                return Sent(kind, place, json.loads(data))


@asynccontextmanager
async def streaming(url: str, query: str = "", **headers: str) -> AsyncIterator[Stream]:
    """Open a stream of the gateway at the URL."""
    async with ClientSession() as session, session.get(f"{url}/v1/events{query}", headers=headers) as response:
        assert response.status == 200, await response.text()
        assert response.content_type == "text/event-stream"
        yield Stream(response)
