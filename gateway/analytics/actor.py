"""The Ray actor ``analytics``: one run of Spark. There is one at a time, and none when nothing runs.

It runs ``python -m muster.spark.command``, as ``muster spark`` does, on the node on which Ray places it. If the actor
is lost, its process ends, and with it Spark's session; the run is then shown as failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from muster.actors.runtime.bound import bound
from muster.actors.runtime.errors import last_line
from muster.actors.runtime.process import log_to_file, wall_ms
from muster.actors.runtime.ray.imports import environment_to_import
from muster.actors.runtime.settings import ClusterSettings
from muster.gateway.analytics.runs import REPORT, Busy, NotStarted, Run, Runs, State
from muster.gateway.client.on_ray import without_ray

NAME = "analytics"
_START_S, _RESPONSE_S = 30.0, 10.0
_MAX_STEPS, _MAX_STEP_CHARS = 100, 500
_MEMORY_BYTES = 512 << 20
_ERROR = "muster: "


class Analytics:
    """The actor. Its run begins with it, and it ends with its run."""

    def __init__(self, settings: ClusterSettings, run: Run) -> None:
        log_to_file(Path(settings.storage), NAME, settings.log_format)
        self._runs = Runs(Path(settings.storage))
        self._settings = settings
        self._run = run
        self._folder = self._runs.add(run)
        self._is_cancelled = False
        self._process: subprocess.Popen[str] | None = None
        self._changing = threading.Lock()
        self._own = ray.get_runtime_context().current_actor
        threading.Thread(target=self._work, name=NAME, daemon=True).start()

    def __repr__(self) -> str:
        return NAME

    def run(self) -> str:
        """Return the id of the run."""
        return self._run.id

    def cancel(self, run_id: str) -> bool:
        """End that run early. Returns whether it is this one."""
        if run_id != self._run.id:
            return False
        with self._changing:
            self._is_cancelled = True
            if self._process is not None:
                self._process.terminate()
        return True

    def _work(self) -> None:
        try:
            state, error = self._spark()
        except Exception as failure:
            state, error = State.FAILED, f"it could not be started: {failure!r}"
        with contextlib.suppress(OSError):
            self._runs.save(self._run.ended(state, wall_ms(), error))
        ray.kill(self._own, no_restart=True)

    def _spark(self) -> tuple[State, str | None]:
        """Run the process to its end. Returns the state of the run, and why it failed."""
        command = [sys.executable, "-P", "-m", "muster.spark.command", json.dumps(self._request())]
        environment = without_ray(environment_to_import(), keep_access=True)
        with self._changing:
            if self._is_cancelled:
                return State.CANCELLED, None
            # The thread lives as long as the process, which ends with it.
            self._process = subprocess.Popen(
                bound(command), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
            )
        assert self._process.stderr is not None
        error = None
        for line in self._process.stderr:
            text = line.strip()[:_MAX_STEP_CHARS]
            if text.startswith(_ERROR):
                error = text.removeprefix(_ERROR)
            elif text and text != str(self._folder / self._run.result):  # where its result is
                self._run = replace(self._run, steps=(*self._run.steps, text)[-_MAX_STEPS:])
                self._runs.save(self._run)
        code = self._process.wait()
        if self._is_cancelled:
            return State.CANCELLED, None
        return (State.SUCCEEDED, None) if code == 0 else (State.FAILED, error or f"exit code {code}")

    def _request(self) -> dict[str, Any]:
        run = self._run
        return {
            "storage": self._settings.storage,
            "bucket": self._settings.bucket,
            "jobs": [] if run.job == REPORT else [run.job],
            "options": {"start": _iso(run.from_ms), "end": _iso(run.to_ms), "groups": run.groups},
            "format": "html" if run.job == REPORT else "json",
            "out": str(self._folder / run.result),
            "ray_address": str(ray.get_runtime_context().gcs_address),
        }


def _iso(time_ms: int | None) -> str | None:
    return None if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()


class RayAnalytics:
    """Runs on the cluster's Ray. For the event loop of a gateway."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._runs = Runs(Path(settings.storage))

    async def start(self, run: Run) -> None:
        """Begin a run. Raises Busy or NotStarted."""

        def create() -> Any:
            options: dict[str, Any] = {
                "name": NAME,
                "namespace": self._settings.namespace,
                "lifetime": "detached",
                "num_cpus": 0,
                "memory": _MEMORY_BYTES,
                "max_concurrency": 8,
            }
            try:
                return ray.remote(Analytics).options(**options).remote(self._settings, run)
            except ValueError as error:  # the name is taken
                raise Busy("another run is in progress; there is one at a time") from error

        actor = await asyncio.to_thread(create)
        try:
            async with asyncio.timeout(_START_S):
                await actor.run.remote()
        except (RayError, TimeoutError) as error:
            if await asyncio.to_thread(self._runs.find, run.id) is None:  # else it has ended already
                await asyncio.to_thread(ray.kill, actor)
                raise NotStarted(last_line(error) or "Ray does not start it in time") from error

    async def runs(self) -> list[Run]:
        """Return the runs, newest first. Raises OSError."""
        running = await self._running()
        found = await asyncio.to_thread(self._runs.all)  # afterwards: a run that has ended meanwhile says so
        return [_checked(run, running) for run in found]

    async def find(self, run_id: str) -> tuple[Run, str | None] | None:
        """Return a run and its result. Raises OSError."""
        running = await self._running()
        run = await asyncio.to_thread(self._runs.find, run_id)
        if run is None:
            return None
        return _checked(run, running), await asyncio.to_thread(self._runs.result, run)

    async def cancel(self, run_id: str) -> bool:
        """End a run early. Returns whether it was running."""
        actor = await self._actor()
        if actor is None:
            return False
        try:
            async with asyncio.timeout(_RESPONSE_S):
                return bool(await actor.cancel.remote(run_id))
        except RayError:  # it has just ended
            return False

    async def _running(self) -> str | None:
        """Return the id of the run in progress."""
        actor = await self._actor()
        if actor is None:
            return None
        try:
            async with asyncio.timeout(_RESPONSE_S):
                return str(await actor.run.remote())
        except (RayError, TimeoutError):
            return None

    async def _actor(self) -> Any:
        try:
            return await asyncio.to_thread(ray.get_actor, NAME, self._settings.namespace)
        except ValueError:
            return None


def _checked(run: Run, running: str | None) -> Run:
    return run.lost() if run.state is State.RUNNING and run.id != running else run
