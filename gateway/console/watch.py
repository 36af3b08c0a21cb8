"""One poller for each distinct credentials, shared by all viewers that have them.

It asks at most once a second, for what grows with the number of groups at most a tenth of the time; not at all without
a viewer. Its hour of curves stays for some minutes after the last viewer has left.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from muster.gateway.client.errors import MusterError
from muster.gateway.console.api import FORBIDDEN, UNAUTHORIZED, Api, ApiError, MissingRoute, NoGateway
from muster.gateway.console.events import EVENTS, EventReader
from muster.gateway.console.model import snapshot as read
from muster.gateway.console.model.analytics import RUNS, Run, read_runs
from muster.gateway.console.model.attribution import GROUPS, PRODUCED, REASONS, Attribution
from muster.gateway.console.model.commands import Target
from muster.gateway.console.model.journal import Journal, read_entries
from muster.gateway.console.model.marks import ALIVE, Marks
from muster.gateway.console.model.series import HOUR_MS, TOTAL_STEP_MS, Curves, GroupCurves
from muster.gateway.console.model.snapshot import Snapshot

log = logging.getLogger(__name__)

T = TypeVar("T")


class Part(Protocol):
    """A part of the poller: returns what has changed of the snapshot."""

    __name__: str

    async def __call__(self) -> dict[str, Any]:
        """Ask the gateways. Raises ApiError or NoGateway."""


PERIOD_S = 1.0
SHARE = 0.1
"""Part of the time in which the poller asks for the same."""
_SHARES = {"_others": 0.5}
"""The share of parts whose responses do not grow with the number of groups."""
_NEWS = {"fault": ("faults", "_others"), "actor": ("status", "_others"), "lost": ("slow", "_seldom")}
"""By kind of event: the query that is due after it, and the part that sends it."""
LEASE_S = 15.0
"""How long a page that was requested counts as a viewer before its socket is there."""
KEPT_S = 600.0
"""How long curves are kept without a viewer."""
MAX_PAUSE_S = 10.0
_ATTRIBUTION_S, _RUNS_S, _CLUSTER_S, _SLOW_S, _MISSING_S = 5.0, 5.0, 15.0, 30.0, 60.0
_NEEDED = {"_groups", "_others"}
"""Parts that a page needs to be drawn."""
_PAGE = 10_000
_BRIDGE_MS = 4_000
"""Curves go on over a gap of this length, or of two rounds."""
_HISTORY_AT_ONCE = 10


class Watch:
    """Picture of the cluster for the viewers with the same credentials, kept up to date."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.now = Snapshot()
        self.totals = Curves(TOTAL_STEP_MS)
        self.curves = GroupCurves()
        self.journal = Journal()
        self.marks = Marks()
        self.attribution = Attribution()
        self.audit: dict[str, Any] = {}
        self.mapping: dict[str, Any] = {}
        self.runs: tuple[Run, ...] = ()
        self.runs_error: str | None = None
        self.left_s = time.monotonic()
        self.rounds = 0
        self._unauthorized: set[str] = set()
        """Parts that were refused when they asked last."""
        self._viewers: dict[object, float | None] = {}
        self._listeners: dict[object, Callable[[], None]] = {}
        self._due: dict[str, float] = {}
        self._news: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        """By part, set when it should ask soon."""
        self._missing: dict[str, float] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """By part, each of which ends by itself when nobody looks."""
        self._events: asyncio.Task[None] | None = None
        self._reader = EventReader(api, self.journal, self.marks, self._happened)
        self._first = asyncio.Event()
        self._parts: set[str] = set()
        self._has_faults = False
        self._computed: dict[str, Any] = {}

    # Viewers

    def lease(self, viewer: object) -> None:
        """Count the viewer for some seconds, until its page is there."""
        self._viewers.setdefault(viewer, time.monotonic() + LEASE_S)
        self._start()

    def join(self, viewer: object, changed: Callable[[], None]) -> None:
        """Count the viewer until it leaves; ``changed`` is called after each round, and after each event."""
        self._viewers[viewer] = None
        self._listeners[viewer] = changed
        self._start()

    def leave(self, viewer: object) -> None:
        """Count the viewer no longer."""
        self._viewers.pop(viewer, None)
        self._listeners.pop(viewer, None)

    @property
    def viewers(self) -> int:
        """Number of viewers."""
        now_s = time.monotonic()
        for viewer in [viewer for viewer, end_s in self._viewers.items() if end_s is not None and end_s < now_s]:
            del self._viewers[viewer]
        return len(self._viewers)

    @property
    def is_unauthorized(self) -> bool:
        """Whether the viewers have to log in."""
        return bool(self._unauthorized)

    @property
    def is_idle(self) -> bool:
        """Whether nobody has looked for so long that the curves may be forgotten."""
        is_over = not self.viewers and all(task.done() for task in self._tasks.values())
        return is_over and time.monotonic() - self.left_s > KEPT_S

    async def ready(self, timeout_s: float) -> bool:
        """Wait for the first snapshot. Returns whether there is one."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._first.wait(), timeout_s)
        return self._first.is_set()

    async def refresh(self) -> None:
        """Ask for everything at once: something was changed."""
        self._due.clear()
        await asyncio.gather(*(self._round(part) for part in self._parts_of()))

    async def close(self) -> None:
        """End the poller."""
        for task in (*self._tasks.values(), self._events):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    @property
    def target(self) -> Target:
        """Addresses for commands."""
        return Target(self.now.cluster.bootstrap, self.now.gateway, self.api.has_login)

    def lacks(self, path: str) -> bool:
        """Return whether the gateways do not have the route."""
        return path in self.now.missing_routes

    # The poller

    def _parts_of(self) -> tuple[Part, ...]:
        return (self._groups, self._waiting, self._others, self._seldom)

    def _start(self) -> None:
        """Start the parts that do not run. Some may still pause after the last viewer, while others have ended."""
        for part in self._parts_of():
            name = f"console {part.__name__.strip('_')}"
            if name not in self._tasks or self._tasks[name].done():
                self._tasks[name] = asyncio.get_running_loop().create_task(self._while_viewed(part), name=name)

    async def _while_viewed(self, part: Part) -> None:
        try:
            await self._repeat(part)
        finally:
            self.left_s = time.monotonic()
            if self._events is not None and not self.viewers:
                self._events.cancel()

    async def _repeat(self, fetch: Part) -> None:
        """Ask again and again. What waits for silent actors delays nothing else."""
        name = fetch.__name__
        share = _SHARES.get(name, SHARE)
        while self.viewers:
            started_s = time.monotonic()
            self._news[name].clear()
            try:
                await self._round(fetch)
            except Exception:
                log.exception("a round of the console failed")
            took_s = time.monotonic() - started_s
            is_waiting = self.now.partial or self.now.error is not None
            pause_s = PERIOD_S if is_waiting else min(took_s * (1 - share) / share, MAX_PAUSE_S)
            await asyncio.sleep(PERIOD_S - took_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news[name].wait(), pause_s - max(PERIOD_S - took_s, 0.0))

    async def _round(self, fetch: Part) -> None:
        started_s = time.monotonic()
        try:
            found = {**await fetch(), "error": None}
            self._unauthorized.discard(fetch.__name__)
        except NoGateway as error:
            found = {"error": str(error)}
        except ApiError as error:
            if error.status == UNAUTHORIZED:
                self._unauthorized.add(fetch.__name__)
            found = {"error": str(error)}
        now_ms = time.time_ns() // 1_000_000
        self.now = replace(
            self.now,
            **found,
            at_ms=now_ms,
            gateway=self.api.gateway,
            failed_gateways=dict(self.api.failed),
            missing_routes=frozenset(self._missing),
        )
        if "groups" in found:
            self.now = replace(self.now, took_s=time.monotonic() - started_s)
            self._record(now_ms)
            self.rounds += 1
        self._parts.add(fetch.__name__)
        if self._parts >= _NEEDED or self.is_unauthorized:
            self._first.set()
        self._inform()

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """Return what ``compute`` returned since the last change, so that it is computed once for all viewers."""
        if name not in self._computed:
            self._computed[name] = compute()
        found: T = self._computed[name]
        return found

    def _inform(self) -> None:
        self._computed.clear()
        for changed in list(self._listeners.values()):
            try:
                changed()
            except Exception:
                log.exception("a page of the console failed")

    def _is_due(self, name: str, period_s: float) -> bool:
        now_s = time.monotonic()
        if self._due.get(name, 0.0) > now_s:
            return False
        self._due[name] = now_s + period_s
        return True

    async def _groups(self) -> dict[str, Any]:
        rows, offset = [], 0
        first: dict[str, Any] = {}
        try:
            while True:
                response = await self.api.get("/v1/groups/lag", sort="group", limit=_PAGE, offset=offset)
                first = first or response
                rows += [read.group_row(each) for each in response.get("groups") or ()]
                offset += _PAGE
                if offset >= (response.get("total") or 0):
                    break
        except ApiError as error:
            if error.status == UNAUTHORIZED:
                raise
            return {"groups_error": str(error)}
        return {
            "groups": rows,
            "groups_error": None,
            "partial": bool(first.get("partial")),
            "missing_partitions": tuple(first.get("missing_partitions") or ()),
            "missing_actors": tuple(first.get("missing_actors") or ()),
        }

    async def _waiting(self) -> dict[str, Any]:
        try:
            response = await self.api.get("/v1/groups/waiting")
        except ApiError as error:
            if error.status == UNAUTHORIZED:
                raise
            return {}
        found = tuple(read.waiting(each) for each in response.get("groups") or ())
        await self._ended(self.now.waiting, found)
        return {"waiting": found}

    async def _ended(self, before: Iterable[read.Waiting], now: Iterable[read.Waiting]) -> None:
        """Fetch rebalances that ended since the last round, where gateways do not stream them."""
        if self._events is not None and not self._events.done() and EVENTS not in self._missing:
            return
        still = {(each.group, each.since_ms) for each in now}
        ended = sorted({each.group for each in before if (each.group, each.since_ms) not in still})
        for group in ended[:_HISTORY_AT_ONCE]:
            with contextlib.suppress(ApiError):
                await self.fetch_history(group, 5)

    async def fetch_history(self, group: str, limit: int) -> None:
        """Fetch the last rebalances of one group into the journal. Raises ApiError or NoGateway."""
        response = await self.api.get("/v1/groups/history", group=group, limit=limit)
        self.journal.add(read_entries(response.get("entries") or ()))

    async def _others(self) -> dict[str, Any]:
        jobs: list[Awaitable[dict[str, Any] | None]] = []
        for name, period_s, job in (
            ("cluster", _CLUSTER_S, self._cluster),
            ("status", PERIOD_S, self._status),
            ("faults", PERIOD_S, self._faults),
            ("runs", PERIOD_S if any(run.is_running for run in self.runs) else _RUNS_S, self._runs),
        ):
            if self._is_due(name, period_s):
                jobs.append(job())
        found: dict[str, Any] = {}
        for part in await asyncio.gather(*jobs):
            found |= part or {}
        if self.api.failed:
            await self.api.look_again()
        if (self._events is None or self._events.done()) and self._may_have(EVENTS):
            self._events = asyncio.get_running_loop().create_task(self._stream(), name="console events")
        return found

    async def _seldom(self) -> dict[str, Any]:
        if self._is_due("attribution", _ATTRIBUTION_S):
            await self._attribution()
        if self._is_due("slow", _SLOW_S):
            await self._backfill()
            self.audit = await self._optional("/v1/audit") or self.audit
            self.mapping = await self._optional("/v1/mapping") or self.mapping
            before_ms = time.time_ns() // 1_000_000 - HOUR_MS
            self.journal.forget(before_ms)
            self.marks.forget(before_ms)
        return {}

    def _may_have(self, path: str) -> bool:
        """Return whether the route exists, as far as is known; one that was missing is tried again after a minute."""
        end_s = self._missing.get(path)
        if end_s is not None and end_s < time.monotonic():
            del self._missing[path]
            end_s = None
        return end_s is None

    async def _optional(self, path: str, **query: Any) -> dict[str, Any] | None:
        """Return the response; None if the route is missing, or the viewer may not see it."""
        if not self._may_have(path):
            return None
        try:
            return await self.api.get(path, **query)
        except MissingRoute:
            self._missing[path] = time.monotonic() + _MISSING_S
        except ApiError as error:
            if error.status == UNAUTHORIZED:
                raise
        return None

    async def _cluster(self) -> dict[str, Any]:
        response = await self._optional("/v1/cluster")
        if response is None:
            return {}
        cluster = read.cluster(response)
        self.api.gateways.found(each.http for each in cluster.gateways)
        return {"cluster": cluster}

    async def _status(self) -> dict[str, Any]:
        try:
            status = await self.api.get("/v1/status")
        except ApiError as error:
            if error.status == UNAUTHORIZED:
                raise
            return {"status_error": str(error)}
        actors = tuple(read.actor_row(each) for each in status.get("actors") or ())
        self.marks.saw_actors(actors, time.time_ns() // 1_000_000)
        found: dict[str, Any] = {
            "nodes": tuple(read.node_row(each) for each in status.get("nodes") or ()),
            "actors": actors,
            "status_error": None,
        }
        if "/v1/cluster" in self._missing:
            cluster = read.cluster_of_status(status, self._has_faults)
            self.api.gateways.found(each.http for each in cluster.gateways)
            found["cluster"] = cluster
        return found

    async def _faults(self) -> dict[str, Any]:
        try:
            response = await self.api.get("/v1/faults")
        except ApiError as error:
            if error.status == UNAUTHORIZED:
                raise
            self._has_faults = False
            if error.status == FORBIDDEN:
                self._due["faults"] = time.monotonic() + _CLUSTER_S
            return {"faults": ()}
        self._has_faults = True
        faults = tuple(read.fault_row(each) for each in response.get("faults") or ())
        self.marks.saw_faults(faults, time.time_ns() // 1_000_000)
        return {"faults": faults}

    async def _runs(self) -> dict[str, Any]:
        if not self._may_have(RUNS):
            return {}
        try:
            self.runs, self.runs_error = read_runs(await self.api.get(RUNS)), None
        except MissingRoute:
            self._missing[RUNS] = time.monotonic() + _MISSING_S
        except ApiError as error:
            if error.status == UNAUTHORIZED:
                raise
            self.runs_error = str(error)
        return {}

    async def _attribution(self) -> None:
        if not self._may_have("/v1/attribution"):
            return
        reports = await asyncio.gather(
            *(self.api.get_from(url, "/v1/attribution") for url in self.api.gateways.current), return_exceptions=True
        )
        responding = []
        for report in reports:
            if isinstance(report, MissingRoute):
                self._missing["/v1/attribution"] = time.monotonic() + _MISSING_S
            elif isinstance(report, BaseException):
                if not isinstance(report, MusterError):
                    raise report
            else:
                self.attribution.feed(report)
                responding.append(str(report["gateway"]))
        if responding:
            self.attribution.keep_only(responding)

    async def _backfill(self) -> None:
        """Fetch what ended before the stream of events, or beside it."""
        since_ms = time.time_ns() // 1_000_000 - HOUR_MS
        response = await self._optional("/v1/rebalances", since_ms=since_ms, limit=1_000)
        if response is not None:
            self.journal.add(read_entries(response.get("entries") or ()))

    def _record(self, now_ms: int) -> None:
        rates = self.attribution.group_rates()
        is_known = self.attribution.is_known
        rows = self.now.groups
        lag, lag_s = read.lag_totals(rows)
        self.totals.put(
            now_ms,
            {
                "lag": lag,
                "lag_s": lag_s,
                "out_bytes_s": self._sum(GROUPS, REASONS),
                "in_bytes_s": self._sum(PRODUCED),
                "groups": len(rows),
            },
            max(_BRIDGE_MS, round(self.now.took_s / SHARE * 2_000)),
        )
        self.curves.put(
            now_ms,
            ((row.group, row.lag, row.lag_s, rates.get(row.group, 0.0) if is_known else None) for row in rows),
            bridge=1,
        )

    async def _stream(self) -> None:
        """Read the stream of events for as long as there are viewers."""
        while self.viewers:
            try:
                await self._reader.read()
            except MissingRoute:
                self._missing[EVENTS] = time.monotonic() + _MISSING_S
                return
            except (ApiError, NoGateway) as error:
                log.debug("the stream of events ended: %s", error)
            await asyncio.sleep(PERIOD_S)

    def _happened(self, kind: str, values: dict[str, Any]) -> None:
        """Ask soon for what an event is about, and tell the pages. That an actor is lost is shown at once."""
        if kind == "actor" and values["state"] != ALIVE:
            actors = tuple(
                replace(each, state=values["state"]) if each.name == values["name"] else each
                for each in self.now.actors
            )
            self.now = replace(self.now, actors=actors)
        if kind in _NEWS:
            due, part = _NEWS[kind]
            self._due.pop(due, None)
            self._news[part].set()
        self._inform()

    def _sum(self, *kinds: str) -> float | None:
        rates = [rate for kind in kinds if (rate := self.attribution.rate_of(kind)) is not None]
        return sum(rates) if rates else None


class Watches:
    """The watches by credentials. ``make`` makes the API for them."""

    def __init__(self, make: Callable[[str | None], Api]) -> None:
        self._make = make
        self._watches: dict[str | None, Watch] = {}

    def of(self, authorization: str | None) -> Watch:
        """Return the watch for these credentials; the ones nobody has looked at for long are forgotten."""
        for key in [key for key, watch in self._watches.items() if watch.is_idle and key != authorization]:
            del self._watches[key]
        watch = self._watches.get(authorization)
        if watch is None:
            watch = self._watches[authorization] = Watch(self._make(authorization))
        return watch

    def forget(self, authorization: str | None) -> None:
        """Forget curves of credentials that are no longer in use."""
        watch = self._watches.get(authorization)
        if watch is not None and not watch.viewers:
            del self._watches[authorization]

    async def close(self) -> None:
        """End all pollers."""
        for watch in self._watches.values():
            await watch.close()
