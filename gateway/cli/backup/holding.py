"""Work while no process of a running Muster acknowledges anything (:mod:`muster.actors.log.upkeep.hold`)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import ray
from ray.exceptions import RayError

from muster.actors.controller.state import ActorState
from muster.actors.log.upkeep.hold import MAX_HOLD_S
from muster.actors.runtime.errors import last_line
from muster.actors.runtime.settings import NAMESPACE
from muster.gateway import cluster
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.output import Steps

_WITH_LOGS = ("log", "offsets", "transactions", "standby")
_ATTEMPTS = 5

T = TypeVar("T")


def while_held(work: Callable[[], T], progress: Steps) -> tuple[T, dict[str, float]]:
    """Call ``work``, perhaps several times: the last call is one during which nothing was acknowledged. CliError.

    Returns its result, and how long each actor held acknowledgements back meanwhile, in ms by its own clock.
    """
    problem = "it was not tried"
    for _ in range(_ATTEMPTS):
        try:
            before = cluster.cluster_status()
            result, released = _held(_handles(before), work)
            held_ms = {name: ms for name, ms in released.items() if ms is not None}
            if len(held_ms) == len(released) and _serving(cluster.cluster_status()) == _serving(before):
                progress.step(longest(held_ms))
                return result, held_ms
            problem = f"it took longer than {MAX_HOLD_S:g} s, or actors were replaced meanwhile"
        except (RayError, ValueError, TimeoutError, cluster.ClusterError) as error:
            problem = last_line(error)
    raise CliError(
        f"no moment was found at which all logs can be captured: {problem}; try again when muster status shows all "
        "actors alive"
    )


def longest(held_ms: Mapping[str, float]) -> str:
    """Return the line that tells how long clients waited, by the actors' times in ms."""
    if not held_ms:
        return "no client had to wait"
    name = max(held_ms, key=held_ms.__getitem__)
    return f"clients waited at most {held_ms[name]:.0f} ms for acknowledgements ({name})"


def _handles(status: dict[str, Any]) -> dict[str, Any]:
    names = [
        actor["name"] for actor in status["actors"] if _has_logs(actor) and actor["state"] == ActorState.ALIVE.value
    ]
    return {name: ray.get_actor(name, NAMESPACE) for name in names}


def _held(handles: Mapping[str, Any], work: Callable[[], T]) -> tuple[T, dict[str, float | None]]:
    """Return the result, and how long each actor was held, in ms; None: it may have acknowledged something
    meanwhile."""
    pending = [handle.hold_acknowledgements.remote() for handle in handles.values()]
    tokens: list[str] = []
    try:
        tokens = ray.get(pending, timeout=MAX_HOLD_S)
        result = work()
    except BaseException:
        with contextlib.suppress(RayError, TimeoutError):
            _release(handles, tokens)
        raise
    return result, _release(handles, tokens)


def _release(handles: Mapping[str, Any], tokens: list[str]) -> dict[str, float | None]:
    calls = [
        handle.release_acknowledgements.remote(token) for handle, token in zip(handles.values(), tokens, strict=False)
    ]
    released: list[float | None] = ray.get(calls, timeout=MAX_HOLD_S)
    return dict(zip(handles, released, strict=False))


def _has_logs(actor: dict[str, Any]) -> bool:
    return str(actor["name"]).partition("-")[0] in _WITH_LOGS


def _serving(status: dict[str, Any]) -> object:
    """Return a value that differs if another process has begun to serve a log."""
    actors = {(actor["name"], actor["pid"], actor["state"], actor["stand_in"]) for actor in status["actors"]}
    return status["controller_epoch"], {actor for actor in actors if actor[0].partition("-")[0] in _WITH_LOGS}
