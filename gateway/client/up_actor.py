"""The detached actor ``up`` in the namespace ``muster-up``: ``muster up`` on the head of a Ray, for programs.

Not in the namespace ``muster``: all that is there is taken for Muster's own. ``muster up`` stops in order when the
actor's process ends, in whatever way; Ray then restarts the actor, which waits for that and starts it anew. It is not
started anew if it ends by itself, or if ``muster down`` stops it: then the actor ends, too.
"""

from __future__ import annotations

import logging
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from muster.actors.runtime.errors import last_line
from muster.actors.runtime.files import write_atomically
from muster.actors.runtime.head import head_node_id
from muster.actors.runtime.ray.imports import environment_to_import
from muster.actors.runtime.settings import NAMESPACE
from muster.gateway.client.errors import AlreadyRunning, MusterError, NoResponse, NotRunning, NotStarted
from muster.gateway.client.http import bases
from muster.gateway.client.on_ray import error_of, without_ray
from muster.gateway.client.process import DOWN, MusterUp, Ready, await_release
from muster.gateway.client.run_state import holder, read_state

log = logging.getLogger(__name__)

NAME, UP_NAMESPACE = "up", "muster-up"
_CONTROLLER = "controller"
_IDENTITY_S = 10.0
_END_S = 60.0
"""Time beyond that for a start or a stop, for all that Ray does."""
_POLL_S = 0.2
_CALLS = 100
"""Callers that wait at the same time."""


class Up:
    """The actor. Its methods block, in threads."""

    def __init__(
        self, storage: str, gateways: int | None, properties: Mapping[str, str], insecure: bool, timeout_s: float
    ) -> None:
        """Start ``muster up``, and return before it serves."""
        context = ray.get_runtime_context()
        self._storage = Path(storage)
        self._address = str(context.gcs_address)
        self._own = context.current_actor
        self._options = {"--address": self._address}
        if gateways is not None:
            self._options["--gateways"] = str(gateways)
        if insecure:
            self._options["--insecure"] = ""
        self._properties = properties
        self._timeout_s = timeout_s
        self._up: MusterUp | None = None
        self._response: dict[str, Any] = {}
        self._has_response = threading.Event()
        self._is_stopping = False
        threading.Thread(target=self._run, name="muster-up", daemon=True).start()

    def __repr__(self) -> str:
        return NAME

    def ready(self, storage: str) -> dict[str, Any]:
        """Return where Muster serves, as soon as it does, or the ``error`` why it does not; nothing if it has ended."""
        if Path(storage).resolve() != self._storage.resolve():
            text = (
                f"a Muster on storage {self._storage} runs on this Ray; stop it first with muster.connect().stop(), or "
                "give its storage"
            )
            return {"error": (AlreadyRunning.__name__, text)}
        self._has_response.wait()
        return {} if self._up is not None and self._up.has_ended and "error" not in self._response else self._response

    def stop(self, timeout_s: float) -> None:
        """Stop Muster in order; after the timeout, kill it, and stop its actors."""
        self._is_stopping = True
        if self._up is None:
            return
        self._up.stop(timeout_s)
        if self._up.exit_code != 0:
            self._stop_what_is_left()

    def _run(self) -> None:
        try:
            self._response = self._start()
        except MusterError as error:
            self._response = {"error": (type(error).__name__, error.message)}
        except Exception as error:
            log.exception("muster up cannot be started")
            self._response = {"error": (NotStarted.__name__, f"muster up cannot be started: {error!r}")}
        self._has_response.set()
        if self._up is None or "error" in self._response:
            return
        self._up.wait()
        if not self._is_stopping:
            log.error("muster up ended with exit code %s: %s", self._up.exit_code, self._up.output)
            ray.kill(self._own, no_restart=True)

    def _start(self) -> dict[str, Any]:
        until_s = time.monotonic() + self._timeout_s
        await_release(self._storage, self._timeout_s)
        while holder(self._storage) is not None:  # a muster up that someone else started
            state = read_state(self._storage)
            if state is not None and state.bootstrap:
                return self._at(Ready(",".join(state.bootstrap), bases(state.metrics)), is_ours=False)
            if time.monotonic() > until_s:
                raise NotStarted(f"the muster up on storage {self._storage} was not ready after {self._timeout_s:g} s")
            time.sleep(_POLL_S)
        if self._is_stopping:
            raise NotStarted("it was stopped before it served")
        self._up = MusterUp(self._options, self._storage, self._properties, self._environment())
        return self._at(self._up.started(max(0.0, until_s - time.monotonic())), is_ours=True)

    def _at(self, ready: Ready, *, is_ours: bool) -> dict[str, Any]:
        return {
            "bootstrap": ready.bootstrap,
            "http": ready.http,
            "ray_address": self._address,
            "is_ours": is_ours,
        }

    def _environment(self) -> dict[str, str]:
        """Return an environment with access to this Ray; a token itself is put into a file, where commands find it."""
        environment = without_ray(environment_to_import(), keep_access=True)
        if token := environment.pop("RAY_AUTH_TOKEN", None):
            file = self._storage / "run" / "ray-token"
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(file, token)
            environment["RAY_AUTH_TOKEN_PATH"] = str(file)
        return environment

    def _stop_what_is_left(self) -> None:
        command = [*DOWN, "--if-running", "--storage", str(self._storage)]
        subprocess.run(command, stdin=subprocess.DEVNULL, env=self._environment(), check=False)


def start(
    storage: str, gateways: int | None, properties: Mapping[str, str], insecure: bool, timeout_s: float
) -> dict[str, Any]:
    """See :func:`muster.gateway.client.launcher.start`. This process is connected to the Ray."""
    until_s = time.monotonic() + timeout_s
    while True:
        existing = _find()
        if existing is None:
            _refuse_other(storage)
        actor = existing or _create(storage, gateways, properties, insecure, timeout_s)
        try:
            response: dict[str, Any] = ray.get(actor.ready.remote(storage), timeout=timeout_s + _END_S)
        except GetTimeoutError:
            ray.kill(actor, no_restart=True)
            text = f"the actor {NAME} on the head did not respond within {timeout_s + _END_S:g} s"
            raise NotStarted(f"{text}; see its log in Ray's dashboard") from None
        except RayActorError as error:  # it ends, or starts again
            if existing is None or time.monotonic() > until_s:
                raise NotStarted(f"the actor {NAME} on the head has failed: {last_line(error)}") from error
            time.sleep(_POLL_S)
            continue
        if _is_serving(response) and response["is_ours"]:
            return response
        kind, message = response.get("error", ("", ""))
        if kind != AlreadyRunning.__name__:
            ray.kill(actor, no_restart=True)
            if _is_serving(response):
                return response
        if kind == AlreadyRunning.__name__ or (kind and existing is None):
            raise error_of(kind, message)


def stop(timeout_s: float, is_required: bool) -> dict[str, Any]:
    """See :func:`muster.gateway.client.on_ray.stop`. This process is connected to the Ray."""
    actor = _find()
    if actor is None:
        if is_required:
            raise NotRunning(
                "no Muster on this Ray was started by muster.start; muster down stops another one, on its host, with "
                "its storage directory"
            )
        return {}
    try:
        ray.get(actor.stop.remote(timeout_s), timeout=timeout_s + _END_S)
    except GetTimeoutError:
        raise NoResponse(f"actor {NAME}", f"after {timeout_s + _END_S:g} s", "has not stopped Muster") from None
    except RayActorError as error:  # Muster stops when the actor ends
        log.debug("the actor %s has ended: %s", NAME, error)
    ray.kill(actor, no_restart=True)
    return {}


def _find() -> Any:
    try:
        return ray.get_actor(NAME, UP_NAMESPACE)
    except ValueError:
        return None


def _create(*arguments: Any) -> Any:
    """Return the actor, which may be another caller's. It cannot move: its ``muster up`` would use another address."""
    return (
        ray.remote(Up)
        .options(
            name=NAME,
            namespace=UP_NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            max_task_retries=0,
            num_cpus=0,
            max_concurrency=_CALLS,
            scheduling_strategy=NodeAffinitySchedulingStrategy(head_node_id() or "", soft=False),
        )
        .remote(*arguments)
    )


def _is_serving(response: Mapping[str, Any]) -> bool:
    return "bootstrap" in response


def _refuse_other(storage: str) -> None:
    """Raise AlreadyRunning if a Muster that was started otherwise uses this Ray, and another storage."""
    try:
        identity: Any = ray.get(ray.get_actor(_CONTROLLER, NAMESPACE).identity.remote(), timeout=_IDENTITY_S)
    except (ValueError, RayError):  # muster up takes over what a killed one has left
        return
    if (other := identity[1]) != storage:
        raise AlreadyRunning(
            f"a Muster on storage {other} runs on this Ray; stop it first with muster down --storage {other}, or give "
            "its storage"
        )
