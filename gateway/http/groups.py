"""Reports of the group coordinators beside Kafka's APIs, as JSON over HTTP.

``GET /v1/groups/history?group=G&limit=N``: the last rebalances of a group.
``GET /v1/groups/waiting``: the rebalances in progress that wait for a member, of all groups.

Requests change nothing and start no coordinator: a partition that was never used has no groups. An error is
``{"error": TEXT}``: 400 for an invalid request, 404 for a group that does not exist, 503 while the coordinator is down
or does not respond in time, 500 if it fails.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError

from muster.actors.wire.internal.channel import Channel, ChannelLost
from muster.gateway.http.callers import current_caller
from muster.gateway.listener.gateway import Gateway
from muster.gateway.listener.queries import Responses, query_coordinators

T = TypeVar("T")
M = TypeVar("M", bound="Body")
_BODY_S = 30.0
DEFAULT_LIMIT, LARGEST_LIMIT = 20, 10_000
"""Rebalances in a history."""
_READY_S = 5.0
_REQUEST_TIMEOUT_S = 5.0


class Failed(Exception):
    """The HTTP response has this status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def add_routes(app: web.Application, gateway: Gateway) -> None:
    """Serve the routes of this module; the app has not been started yet."""

    async def history(request: web.Request) -> dict[str, Any]:
        group = required(request, "group")
        limit = number(request, "limit", DEFAULT_LIMIT, 1, LARGEST_LIMIT)
        found = await query_coordinator(gateway, group, {"ask": "history", "group": group, "limit": limit})
        sees = current_caller().sees_topic
        for entry in found.get("entries", []):
            entry["partitions"] = [pause for pause in entry["partitions"] if sees(pause["topic"])]
        return found

    async def waiting(request: web.Request) -> dict[str, Any]:
        found = merged(*await query_coordinators(gateway, {"ask": "waiting"}, _REQUEST_TIMEOUT_S))
        caller = current_caller()
        if "groups" in found:
            found["groups"] = [rebalance for rebalance in found["groups"] if caller.sees_group(rebalance["group"])]
        return found

    app.router.add_get("/v1/groups/history", as_json(history))
    app.router.add_get("/v1/groups/waiting", as_json(waiting))


def as_json(
    route: Callable[[web.Request], Awaitable[dict[str, Any]]],
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return a handler with the route's response, or its failure, as JSON."""

    async def handle(request: web.Request) -> web.Response:
        try:
            return web.json_response(await route(request), dumps=_dumps)
        except Failed as failed:
            return web.json_response({"error": str(failed)}, status=failed.status, dumps=_dumps)

    return handle


def _dumps(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def required(request: web.Request, name: str) -> str:
    """Return the query parameter. Raises Failed (400) if it is missing or empty."""
    value = request.query.get(name)
    if not value:
        raise Failed(400, f"the parameter {name} is missing")
    return value


def number(request: web.Request, name: str, default: int, least: int, most: int) -> int:
    """Return the query parameter.

    Raises Failed (400) unless it is a number from ``least`` to ``most``, below a billion.
    """
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) <= 9) or not least <= int(text) <= most:
        raise Failed(400, f"{name} must be a number from {least} to {most}")
    return int(text)


async def query_coordinator(gateway: Gateway, group: str, query: dict[str, Any]) -> dict[str, Any]:
    """Return the response of the group's coordinator.

    Raises Failed if it refuses, is down or does not respond in time.
    """
    response = await from_coordinator(gateway, group, lambda channel: channel.query(query))
    if "error" in response:
        raise refused(response)
    return response


async def from_coordinator(gateway: Gateway, group: str, send: Callable[[Channel], Awaitable[T]]) -> T:
    """Send a request on the channel to the group's coordinator. Failed (404, 503) if it is missing or silent."""
    partition = gateway.partition_of(group)
    if partition not in gateway.view.offsets:
        raise Failed(404, f"unknown group {group}")
    await gateway.coordinator_ready(partition, _READY_S)
    channel = gateway.forwarder.offsets(partition)
    if channel is None:
        raise Failed(503, f"the coordinator of the group, offsets-{partition}, is down")
    try:
        async with asyncio.timeout(_REQUEST_TIMEOUT_S):
            return await send(channel)
    except (ChannelLost, TimeoutError) as error:
        raise Failed(503, f"the coordinator of the group, offsets-{partition}, does not respond") from error


def refused(response: Mapping[str, Any]) -> Failed:
    """Return the HTTP error for an actor's response ``{"error": TEXT}``."""
    text = str(response["error"])
    return Failed(404 if text.startswith("unknown group") else 500, text)


def merged(responses: Responses, missing: list[int]) -> dict[str, Any]:
    """Their lists concatenated, by name; ``partial`` if partitions are missing, which are named.

    Failed (503) if none of the queried actors responded.
    """
    if missing and not responses:
        raise Failed(
            503, f"no coordinator responds; queried were {', '.join(f'offsets-{number}' for number in missing)}"
        )
    together: dict[str, Any] = {}
    for response in responses.values():
        for name, value in response.items():
            if isinstance(value, list):
                together.setdefault(name, []).extend(value)
    return {**together, "partial": bool(missing), "missing_partitions": missing}


class Body(BaseModel):
    """A JSON object without other members than its fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


async def body_of(request: web.Request, kind: type[M]) -> M:
    """Return the body. Raises Failed: 415 unless it is ``application/json``, 400, or 408 if it does not come.

    A page of another site cannot send JSON to this one.
    """
    if request.content_type != "application/json":
        raise Failed(415, "the body must be application/json, as named in Content-Type")
    try:
        async with asyncio.timeout(_BODY_S):
            text = await request.read()
    except TimeoutError:
        raise Failed(408, f"the body has not come within {_BODY_S:g} s") from None
    except web.RequestPayloadError as error:
        raise Failed(400, f"the body cannot be read: {' '.join(str(error).split())}") from error
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise Failed(400, "; ".join(_problem(each["loc"], each["msg"]) for each in error.errors())) from error


def _problem(where: tuple[int | str, ...], text: str) -> str:
    return f"{'.'.join(map(str, where)) or 'the body'}: {text}"
