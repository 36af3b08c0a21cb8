"""The fault API over HTTP, under /v1/faults. See docs/faults.md.

Everything returns 403 unless ``fault.injection.enable=true``. An error is ``{"error": TEXT}``; for
an invalid fault (400) it has ``problems``, a text for each thing that is wrong. A body must be ``application/json``,
that of a plan may be ``application/yaml``: so a page in a user's browser cannot send one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from muster.actors.faults import processes
from muster.actors.faults.errors import FaultError, FaultsDisabled, InvalidFault, UnknownTarget, Unreachable
from muster.actors.faults.model import ActorFault, Fault, HeldFault, PauseFault
from muster.actors.faults.plan import Plan, Run, Step
from muster.gateway.faults.injection import GatewayFaults
from muster.gateway.http.callers import Caller, current_caller
from muster.gateway.listener.controller import ControllerUnavailable
from muster.gateway.listener.gateway import Gateway

log = logging.getLogger(__name__)

DISABLED = "fault injection is off; start the cluster with --set fault.injection.enable=true (test clusters only)"
_JSON, _YAML = "application/json", "application/yaml"
_SOON_S = 0.1
"""How long the response has to be sent before this gateway's own process is stopped."""
_LOOK_S = 0.2
_BODY_S = 30.0
Route = Callable[[web.Request, GatewayFaults], Awaitable[web.StreamResponse]]


def add_routes(app: web.Application, gateway: Gateway) -> None:
    """Serve the routes of this module; the app has not been started yet."""
    api = _Api(gateway)
    app.router.add_post("/v1/faults", api.route(api.inject))
    app.router.add_get("/v1/faults", api.route(api.listed))
    app.router.add_delete("/v1/faults", api.route(api.clear))
    app.router.add_delete("/v1/faults/{id}", api.route(api.clear))
    app.router.add_post("/v1/faults/plan", api.route(api.plan))
    app.router.add_post("/v1/faults/plan/check", api.route(api.check))
    app.on_shutdown.append(api.shut)


class _Api:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._tasks: set[asyncio.Task[None]] = set()
        self._plans: set[asyncio.Task[Any]] = set()

    def route(self, response: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Return a handler with the response, or the message and status of its error."""

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                faults = self._gateway.faults
                if not isinstance(faults, GatewayFaults):
                    raise FaultsDisabled(DISABLED)
                return await response(request, faults)
            except InvalidFault as error:
                return _failed(400, str(error), problems=list(error.problems))
            except FaultError as error:
                return _failed(_STATUS.get(type(error), 409), str(error))
            except ControllerUnavailable as error:
                return _failed(
                    503, f"the controller does not respond; whether the request was executed is unknown: {error}"
                )

        return handle

    async def inject(self, request: web.Request, faults: GatewayFaults) -> web.Response:
        fault = Fault.from_json(await _body(request))
        return web.json_response(await self._inject(fault, faults, current_caller()), status=201)

    async def _inject(self, fault: Fault, faults: GatewayFaults, caller: Caller) -> dict[str, Any]:
        done = await faults.controller.inject(fault, f"gateway-{self._gateway.id}")
        left = done.pop("left", None)
        if isinstance(fault, ActorFault):
            self._gateway.metrics.fault_injected(fault.action, actor=done["actor"])
            log.warning("fault %s of %s: %s %s, pid %d", done["id"], caller, fault.action, done["actor"], done["pid"])
        else:
            log.warning("fault %s of %s: %s", done["id"], caller, fault.action)
        if left is not None and left["actor"] == f"gateway-{self._gateway.id}":
            self._spawn(self._do_soon(left, faults))
        elif left is not None:
            await _do(left, faults)
        return done

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _do_soon(self, left: dict[str, Any], faults: GatewayFaults) -> None:
        await asyncio.sleep(_SOON_S)
        try:
            await _do(left, faults)
        except (FaultError, ControllerUnavailable) as error:
            log.error("fault %s could not be done to this gateway: %s", left["fault_id"], error)

    async def listed(self, request: web.Request, faults: GatewayFaults) -> web.Response:
        await faults.reported()
        return web.json_response({"faults": await faults.controller.faults()})

    async def clear(self, request: web.Request, faults: GatewayFaults) -> web.Response:
        cleared = await faults.controller.clear(request.match_info.get("id"))
        if cleared:
            log.warning("faults %s are cleared by %s", ", ".join(cleared), current_caller())
        return web.json_response({"cleared": cleared})

    async def plan(self, request: web.Request, faults: GatewayFaults) -> web.StreamResponse:
        """Write a JSON line for each completed step. If the client disconnects, the plan ends and clears its faults."""
        plan = await _plan(request)
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        loop = asyncio.get_running_loop()
        running, started_s, complete = Run(plan), loop.time(), False
        task = asyncio.current_task()
        assert task is not None
        self._plans.add(task)
        try:
            for step in plan.steps:
                await _until(request, started_s + step.at_ms / 1000)
                await response.write(_line(step, await self._step(step, running, faults, current_caller())))
            complete = True
        except (FaultError, ControllerUnavailable) as error:
            await response.write(_line(step, {"error": str(error)}))
        except ConnectionError:
            log.info("the client of plan %r went away after %d faults; they are cleared", plan.name, len(running.ids))
        finally:
            self._plans.discard(task)
            if not complete:
                await asyncio.shield(self._clear_all(running, faults))
        return response

    async def check(self, request: web.Request, faults: GatewayFaults) -> web.Response:
        """Return the steps in order of time, for a client that keeps the times itself."""
        plan = await _plan(request)
        return web.json_response({"name": plan.name, "steps": [step.to_json(plan.steps) for step in plan.steps]})

    async def _step(self, step: Step, running: Run, faults: GatewayFaults, caller: Caller) -> dict[str, Any]:
        if step.fault is not None:
            fault_id = str((await self._inject(step.fault, faults, caller))["id"])
            running.injected(step, fault_id)
            return {"id": fault_id}
        try:
            return {"cleared": await faults.controller.clear(running.to_clear(step))}
        except UnknownTarget:
            return {"cleared": []}

    async def _clear_all(self, running: Run, faults: GatewayFaults) -> None:
        for fault_id in running.ids:
            with contextlib.suppress(FaultError, ControllerUnavailable):
                await faults.controller.clear(fault_id)

    async def shut(self, app: web.Application) -> None:
        """End the plans with the gateway."""
        for task in self._plans:
            task.cancel()


_STATUS: dict[type[FaultError], int] = {FaultsDisabled: 403, UnknownTarget: 404, Unreachable: 503}


async def _plan(request: web.Request) -> Plan:
    if request.content_type != _YAML:
        return Plan.from_json(await _body(request, _JSON, _YAML))
    try:
        text = (await _read(request)).decode()
    except UnicodeDecodeError as error:
        raise InvalidFault([f"the body is not UTF-8: {error}"]) from error
    return await asyncio.to_thread(Plan.from_text, text)


async def _body(request: web.Request, *types: str) -> Any:
    """Return the decoded JSON body. ``types`` that the route accepts are named to a client that sends another one."""
    if request.content_type != _JSON:
        wanted = " or ".join(types or (_JSON,))
        raise web.HTTPUnsupportedMediaType(
            text=json.dumps({"error": f"the body must be {wanted}, as named in Content-Type"}), content_type=_JSON
        )
    try:
        return json.loads(await _read(request))
    except (ValueError, RecursionError) as error:
        raise InvalidFault([f"the body is not JSON: {error}"]) from error


async def _read(request: web.Request) -> bytes:
    """Return the body, which has to come soon. Raises HTTPRequestEntityTooLarge, HTTPRequestTimeout or InvalidFault."""
    try:
        async with asyncio.timeout(_BODY_S):
            return await request.read()
    except TimeoutError:
        text = json.dumps({"error": f"the body has not come within {_BODY_S:g} s"})
        raise web.HTTPRequestTimeout(text=text, content_type=_JSON) from None
    except web.RequestPayloadError as error:
        raise InvalidFault([f"the body cannot be read: {' '.join(str(error).split())}"]) from error


async def _until(request: web.Request, time_s: float) -> None:
    """Wait for that time of the loop.

    Raises ConnectionResetError if the client disconnects, which aiohttp does not report.
    """
    loop = asyncio.get_running_loop()
    while (left_s := time_s - loop.time()) > 0:
        await asyncio.sleep(min(left_s, _LOOK_S))
        if request.transport is None or request.transport.is_closing():
            raise ConnectionResetError


async def _do(left: dict[str, Any], faults: GatewayFaults) -> None:
    """Do what the controller could not do to itself, or to this process before it had responded."""
    fault, where = left["fault"], left["where"]
    holder = await faults.controller.run(where.node_id, processes.do, fault, where.pid)
    nobody_is_there = left["actor"] == "controller" and isinstance(fault, PauseFault)
    if isinstance(fault, HeldFault) and not nobody_is_there:
        await faults.controller.held(left["fault_id"], fault, left["actor"], where, holder)


def _line(step: Step, result: dict[str, Any]) -> bytes:
    return json.dumps({"step": step.number, "at_ms": step.at_ms, "does": str(step), **result}).encode() + b"\n"


def _failed(status: int, text: str, **more: Any) -> web.Response:
    return web.json_response({"error": text, **more}, status=status)
