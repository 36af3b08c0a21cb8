"""Work of a program on a Ray: in this process if that is connected to it, else in one that connects and ends.

So a program's own connection stays as it is, and none is left. ``python -m`` runs this module as the other process.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from muster.actors.runtime.errors import first_line, last_line
from muster.actors.runtime.ray.imports import environment_to_import, job_config
from muster.gateway.client import errors
from muster.gateway.client.errors import MusterError, NoResponse, NotRunning

_WORK = "muster.gateway.client.up_actor"
"""The module with what can be done; it imports Ray."""
_CONNECT_S = 5.0
_CLIENT_ATTEMPTS = 3
_REMEDY = "; check the address, and set RAY_AUTH_MODE=token if that Ray requires a token"
_CONNECTING = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
_TLS = ("RAY_USE_TLS", "RAY_TLS_")


def connected_ray() -> str | None:
    """Return HOST:PORT of the GCS of the Ray that this process is connected to, also by Ray Client; None: to none."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return None
    return str(ray.get_runtime_context().gcs_address)


def chosen_ray(address: str | None) -> str:
    """Return the address, else that of this process's Ray, else RAY_ADDRESS. Raises NotRunning if there is none."""
    chosen = address or connected_ray() or os.environ.get("RAY_ADDRESS")
    if not chosen:
        raise NotRunning("no Ray is known: connect with ray.init(address=...) first, or give address=, or RAY_ADDRESS")
    return chosen


def without_ray(environment: Mapping[str, str], *, keep_access: bool = False) -> dict[str, str]:
    """Return the environment without Ray's variables, which are of this driver, job or worker alone.

    ``keep_access``: but with its token and TLS, to connect to the same Ray.
    """
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("RAY_") or (keep_access and (name in _CONNECTING or name.startswith(_TLS)))
    }


def call(address: str, function: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Call the function of the module for work on the Ray at the address.

    ``request`` and what it returns are of JSON. Raises the function's MusterError; NoResponse if there is no Ray, or it
    refuses us.
    """
    if address == connected_ray():
        found: dict[str, Any] = getattr(import_module(_WORK), function)(**request)
        return found
    _check_listens(address)
    environment = without_ray(environment_to_import(), keep_access=True)
    if (Path.home() / ".ray/auth_token").exists():  # a Ray that this user starts requires it from then on
        environment.setdefault("RAY_AUTH_MODE", "token")
    done = subprocess.run(
        [sys.executable, "-P", "-m", __name__],
        input=json.dumps({"address": address, "function": function, "request": dict(request)}),
        capture_output=True,
        env=environment,
        text=True,
        check=False,
    )
    try:
        response = json.loads(done.stdout)
    except ValueError:
        raise NoResponse("process for Ray", last_line(Exception(done.stderr)), "failed") from None
    if "error" in response:
        kind, message = response["error"]
        raise error_of(kind, message)
    return dict(response["found"])


def error_of(kind: str, message: str) -> MusterError:
    """Return an error of another process, by the name of its class."""
    return errors.rebuilt(getattr(errors, kind, MusterError), (message,), {"message": message})


def stop(address: str, timeout_s: float, *, is_required: bool) -> None:
    """Stop what muster.start started on that Ray, whoever called it.

    Raises NotRunning if nothing was and it ``is_required``, NoResponse.
    """
    call(address, "stop", {"timeout_s": timeout_s, "is_required": is_required})


def _check_listens(address: str) -> None:
    """Raise NoResponse if nothing listens at HOST:PORT or ray://HOST:PORT: Ray itself takes minutes to say so."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        if parts.hostname and parts.port:
            socket.create_connection((parts.hostname, parts.port), _CONNECT_S).close()
    except (OSError, ValueError) as error:
        raise _no_ray(address, str(error)) from error


def _no_ray(address: str, why: str) -> NoResponse:
    return NoResponse(f"Ray at {address}", why, hint=_REMEDY)


def _carry_out(address: str, function: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    import ray

    _connect(address)
    try:
        found: Mapping[str, Any] = getattr(import_module(_WORK), function)(**request)
        return found
    finally:
        ray.shutdown()


def _connect(address: str) -> None:
    """Connect this process. Ray Client is tried again: on a busy head, the server that starts for it may give up."""
    import ray

    is_client = "://" in address
    workers: dict[str, Any] = {} if is_client else {"job_config": job_config()}  # Ray Client takes no class of ours
    for attempts_left in reversed(range(_CLIENT_ATTEMPTS if is_client else 1)):
        try:
            ray.init(address=address, log_to_driver=False, configure_logging=False, **workers)
        except ConnectionAbortedError as error:
            if not attempts_left:
                raise _no_ray(address, last_line(error)) from error
            ray.shutdown()
        except Exception as error:  # of many kinds
            raise _no_ray(address, first_line(error)) from error
        else:
            return


def main() -> None:
    """Read the call from stdin, as JSON; write what it returns, or the kind and message of its error."""
    response = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ray's output
    try:
        found: dict[str, Any] = {"found": _carry_out(**json.load(sys.stdin))}
    except MusterError as error:
        found = {"error": (type(error).__name__, error.message)}
    with response:
        json.dump(found, response)


if __name__ == "__main__":
    main()
