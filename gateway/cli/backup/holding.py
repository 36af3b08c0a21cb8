"""Does something while no process of a running Muster acknowledges anything (:mod:`muster.actors.log.upkeep.hold`)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, TypeVar

import ray
from ray.exceptions import RayError

from muster.actors.log.upkeep.hold import MAX_HOLD_S
from muster.actors.runtime.errors import last_line
from muster.actors.runtime.settings import NAMESPACE
from muster.gateway import cluster
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.output import Steps

_WITH_LOGS = ("log", "offsets", "transactions", "standby")
_ATTEMPTS = 5

T = TypeVar("T")


def while_held(work: Callable[[], T], progress: Steps) -> T:
    """Call ``work``, perhaps several times: the last call is one during which nothing was acknowledged. CliError."""
    problem = "it was not tried"
    for _ in range(_ATTEMPTS):
        try:
            before = cluster.cluster_status()
            began_s = time.monotonic()
            result, was_held = _held(_handles(before), work)
            held_ms = (time.monotonic() - began_s) * 1000
            if was_held and _serving(cluster.cluster_status()) == _serving(before):
                progress.step(f"nothing was acknowledged for {held_ms:.0f} ms meanwhile")
                return result
            problem = f"it took longer than {MAX_HOLD_S:g} s, or actors were replaced meanwhile"
        except (RayError, ValueError, TimeoutError, cluster.ClusterError) as error:
            problem = last_line(error)
    raise CliError(
        f"no moment was found at which all logs can be captured: {problem}; try again when muster status shows all "
        "actors alive"
    )


def _handles(status: dict[str, Any]) -> list[Any]:
    names = [actor["name"] for actor in status["actors"] if _has_logs(actor) and actor["state"] == "alive"]
    return [ray.get_actor(name, NAMESPACE) for name in names]


def _held(handles: list[Any], work: Callable[[], T]) -> tuple[T, bool]:
    """The result, and whether nothing was acknowledged meanwhile."""
    pending = [handle.hold_acknowledgements.remote() for handle in handles]
    tokens: list[str] = []
    try:
        tokens = ray.get(pending, timeout=MAX_HOLD_S)
        result = work()
    except BaseException:
        with contextlib.suppress(RayError, TimeoutError):
            _release(handles, tokens)
        raise
    return result, all(_release(handles, tokens))


def _release(handles: list[Any], tokens: list[str]) -> list[bool]:
    calls = [handle.release_acknowledgements.remote(token) for handle, token in zip(handles, tokens, strict=False)]
    released: list[bool] = ray.get(calls, timeout=MAX_HOLD_S)
    return released


def _has_logs(actor: dict[str, Any]) -> bool:
    return str(actor["name"]).partition("-")[0] in _WITH_LOGS


def _serving(status: dict[str, Any]) -> object:
    """What differs if another process has begun to serve a log."""
    actors = {(actor["name"], actor["pid"], actor["state"], actor["stand_in"]) for actor in status["actors"]}
    return status["controller_epoch"], {actor for actor in actors if actor[0].partition("-")[0] in _WITH_LOGS}
