"""The fault API for Python programs and tests: synchronous, over HTTP, from any machine that reaches a gateway."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

from actors.faults import plan as plans
from actors.faults.errors import FaultError, FaultsDisabled, InvalidFault, UnknownTarget, Unreachable
from actors.faults.model import CONTINUE, KILL, PAUSE, SLOW, Fault

_OPENER = build_opener(ProxyHandler({}))
_DISABLED, _NOT_FOUND, _INVALID = 403, 404, 400


class FaultClient:
    """Injects, lists and clears the faults of one cluster.

    Every method raises FaultsDisabled unless the cluster was started with ``fault.injection.enable=true``, and
    Unreachable when nobody answers. A call goes to the first gateway of those given that can be connected to.
    """

    def __init__(self, *http_urls: str, timeout_s: float = 30.0) -> None:
        """``http_urls``: of gateways, as ``muster up`` prints them (``metrics=``), with or without /metrics."""
        if not http_urls:
            raise ValueError("no URL of a gateway is given")
        urls = [url.strip().rstrip("/") for given in http_urls for url in given.split(",")]
        self._urls = [url.removesuffix("/metrics") for url in urls]
        self._timeout_s = timeout_s

    def inject(self, fault: Fault | str | Mapping[str, Any], **fields: Any) -> str:
        """Inject the fault, given whole or as its action and fields: its id.

        It is in force on every gateway that lives when this returns. InvalidFault; UnknownTarget for an actor that
        does not run.
        """
        if isinstance(fault, str):
            fault = Fault(fault, **fields)
        elif fields:
            raise TypeError("fields go with an action, not with a whole fault")
        body = fault.to_json() if isinstance(fault, Fault) else Fault.from_json(fault).to_json()
        return str(self._call("POST", "/v1/faults", body)["id"])

    def faults(self) -> list[dict[str, Any]]:
        """What is in force: id, fault, matched, hits, injected_ms, expires_at_ms."""
        found: list[dict[str, Any]] = self._call("GET", "/v1/faults")["faults"]
        return found

    def clear(self, fault_id: str | None = None) -> list[str]:
        """End the fault, or all of them: the ids of those that ended. UnknownTarget for an id that is not there."""
        path = "/v1/faults" if fault_id is None else f"/v1/faults/{quote(fault_id, safe='')}"
        cleared: list[str] = self._call("DELETE", path)["cleared"]
        return cleared

    def kill(self, actor: str | None = None, *, group: str | None = None) -> str:
        """SIGKILL to the actor's process, or to that of the offsets actor that owns the group."""
        return self.inject(Fault(KILL, actor=actor, group=group))

    def pause(self, actor: str | None = None, *, group: str | None = None, expires_ms: int | None = None) -> str:
        """SIGSTOP to the actor's process, until :meth:`resume`, :meth:`clear`, or ``expires_ms``."""
        return self.inject(Fault(PAUSE, actor=actor, group=group, expires_ms=expires_ms))

    def resume(self, actor: str | None = None, *, group: str | None = None) -> str:
        """SIGCONT to the actor's process; its pause and slow faults are over."""
        return self.inject(Fault(CONTINUE, actor=actor, group=group))

    def slow(
        self,
        actor: str | None = None,
        speed: float = 0.5,
        *,
        group: str | None = None,
        expires_ms: int | None = None,
    ) -> str:
        """Let the actor's process run only ``speed`` of the time (0 < speed < 1)."""
        return self.inject(Fault(SLOW, actor=actor, group=group, speed=speed, expires_ms=expires_ms))

    def run(self, plan: plans.Plan, on_step: Callable[[plans.Step, str], None] = lambda step, result: None) -> None:
        """Do the steps of a plan at their times; returns after the last. ``on_step`` hears of each and what came of it.

        A step that is refused ends the plan with its FaultError; the faults that the plan injected are cleared then,
        and when it is interrupted. Those of a plan that came to its end stay until they expire or are cleared.
        """
        plans.run(plan, self, on_step)

    def _call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        failure: OSError | None = None
        for url in self._urls:
            try:
                return self._ask(Request(f"{url}{path}", method=method), body)
            except HTTPError as error:
                with error:
                    raise _refused(error) from None
            except URLError as error:
                if not isinstance(error.reason, ConnectionRefusedError):
                    raise Unreachable(f"{url} does not answer: {error.reason}") from error
                failure = error
            except (OSError, HTTPException, ValueError) as error:
                raise Unreachable(f"{url} does not answer: {str(error) or type(error).__name__}") from error
        raise Unreachable(f"no gateway listens at {', '.join(self._urls)}") from failure

    def _ask(self, request: Request, body: Any) -> dict[str, Any]:
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        with _OPENER.open(request, timeout=self._timeout_s) as response:
            answer: dict[str, Any] = json.load(response)
            return answer


def _refused(error: HTTPError) -> FaultError:
    try:
        answer = json.load(error)
        text, problems = str(answer["error"]), answer.get("problems")
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        text, problems = f"HTTP {error.code}", None
    if error.code == _DISABLED:
        return FaultsDisabled(text)
    if error.code == _INVALID:
        return InvalidFault(problems or [text])
    if error.code == _NOT_FOUND:
        return UnknownTarget(text)
    return Unreachable(text) if error.code >= 500 else FaultError(text)
