"""Who sends a request to the HTTP port, and what they may do: one middleware for all routes.

A caller is a SASL user (HTTP Basic, as SASL PLAIN), the name of a bearer token, or who a client certificate is of.
Without any of these it is ANONYMOUS. With an authorizer, ACLs decide, as for Kafka's APIs; without, who is
authenticated may do everything, and so may anyone if nothing that authenticates is configured.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from aiohttp import web

from muster.actors.config.overrides import METRICS
from muster.actors.group.watchdog import on_one_line
from muster.gateway.administration.trail import Change, Who
from muster.gateway.listener.gateway import Gateway
from muster.gateway.security.authorization.authorization_log import Decision
from muster.gateway.security.authorization.authorizer import Authorizer
from muster.gateway.security.host_names import is_own, listed, own_names
from muster.gateway.security.sasl import Sasl
from muster.gateway.security.tls.listeners import TlsListeners
from muster.gateway.security.tokens import TokensFile
from muster.gateway.security.turns import TooBusy
from muster.placement.client import ANONYMOUS
from muster.placement.mapping.nodes import canonical_host
from muster.placement.security.acls import CLUSTER_NAME, AclOperation, AclResourceType

_CALLER: ContextVar[Caller] = ContextVar("caller")
"""Caller of the request that the current task serves."""
_MAX_CREDENTIALS_CHARS = 8192
_FAILED = 500
"""The status of what ends without a response: aiohttp sends it, or the client is gone."""
DOOR = "http"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Right(Enum):
    """Right that a route needs."""

    NONE = "nothing"
    NAMES = "nothing; names that the caller may not DESCRIBE are hidden"
    ROWS = "to be known; rows that the caller may not DESCRIBE are left out"
    GROUP = "DESCRIBE on the group in the query"
    GROUP_OR_ROWS = (
        "DESCRIBE on the group in the query; without one, rows that the caller may not DESCRIBE are left out"
    )
    TOPIC = "DESCRIBE on the topic in the query"
    KAFKA = "the rights of the Kafka requests that it sends"
    READ_CLUSTER = "DESCRIBE on the cluster"
    CHANGE_CLUSTER = "ALTER on the cluster"


RIGHTS: dict[tuple[str, str], Right] = {
    ("GET", "/"): Right.NONE,
    ("GET", "/healthz"): Right.NONE,
    ("GET", "/metrics"): Right.NAMES,
    ("GET", "/v1/openapi.json"): Right.NONE,
    ("GET", "/v1/analytics/runs"): Right.CHANGE_CLUSTER,
    ("POST", "/v1/analytics/runs"): Right.CHANGE_CLUSTER,
    ("GET", "/v1/analytics/runs/{id}"): Right.CHANGE_CLUSTER,
    ("DELETE", "/v1/analytics/runs/{id}"): Right.CHANGE_CLUSTER,
    ("GET", "/v1/analytics/runs/{id}/report"): Right.CHANGE_CLUSTER,
    ("GET", "/v1/attribution"): Right.ROWS,
    ("GET", "/v1/audit"): Right.ROWS,
    ("GET", "/v1/cluster"): Right.ROWS,
    ("GET", "/v1/events"): Right.ROWS,
    ("GET", "/v1/groups/describe"): Right.KAFKA,
    ("POST", "/v1/groups/evict"): Right.KAFKA,
    ("GET", "/v1/groups/history"): Right.GROUP,
    ("GET", "/v1/groups/lag"): Right.GROUP_OR_ROWS,
    ("POST", "/v1/groups/reset"): Right.KAFKA,
    ("POST", "/v1/groups/reset/plan"): Right.KAFKA,
    ("GET", "/v1/groups/waiting"): Right.ROWS,
    ("GET", "/v1/mapping"): Right.READ_CLUSTER,
    ("POST", "/v1/nodes/drain"): Right.CHANGE_CLUSTER,
    ("POST", "/v1/nodes/undrain"): Right.CHANGE_CLUSTER,
    ("GET", "/v1/prometheus/targets"): Right.READ_CLUSTER,
    ("GET", "/v1/rebalances"): Right.ROWS,
    ("GET", "/v1/status"): Right.READ_CLUSTER,
    ("GET", "/v1/topics"): Right.ROWS,
    ("GET", "/v1/topics/describe"): Right.TOPIC,
    ("GET", "/v1/topics/records"): Right.KAFKA,
    ("POST", "/v1/topics/records"): Right.KAFKA,
    ("GET", "/v1/faults"): Right.READ_CLUSTER,
    ("POST", "/v1/faults"): Right.CHANGE_CLUSTER,
    ("DELETE", "/v1/faults"): Right.CHANGE_CLUSTER,
    ("DELETE", "/v1/faults/{id}"): Right.CHANGE_CLUSTER,
    ("POST", "/v1/faults/plan"): Right.CHANGE_CLUSTER,
    ("POST", "/v1/faults/plan/check"): Right.READ_CLUSTER,
}
"""By method and path of the route. A route that is missing here is refused."""
CHANGES: dict[tuple[str, str], str] = {
    ("POST", "/v1/analytics/runs"): "CLUSTER",
    ("DELETE", "/v1/analytics/runs/{id}"): "CLUSTER",
    ("POST", "/v1/groups/evict"): "GROUP",
    ("POST", "/v1/groups/reset"): "GROUP",
    ("POST", "/v1/nodes/drain"): "NODE",
    ("POST", "/v1/nodes/undrain"): "NODE",
    ("POST", "/v1/topics/records"): "TOPIC",
}
"""Routes that are refused unless ``http.changes.enable=true``, and the types of what they change."""
_RECORDED_BY_KAFKA = frozenset({("POST", "/v1/groups/evict"), ("POST", "/v1/groups/reset")})
"""Changes whose Kafka requests are administrative, and so in the trail."""
_CHANGE: web.RequestKey[tuple[str, str]] = web.RequestKey("change", tuple)
_RECORDS = ("GET", "/v1/topics/records")
_OTHER_NAME = "this name is not one of the cluster's, and another site may have led you here; see console.allowed.hosts"
_CHANGES_DISABLED = "changes over HTTP are off; start the cluster with --set http.changes.enable=true"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request."""

    principal: str
    host: str
    may_all: bool
    """Verdict on all resources, if there is no authorizer."""
    authorizer: Authorizer | None = None
    on_decided: Callable[[Decision], None] = lambda decision: None
    """Counts and logs a decision of the authorizer; one that only leaves something out is not given to it."""
    route: str = ""
    """The request, as in logs."""

    def __str__(self) -> str:
        return on_one_line(f"{self.principal} at {self.host}")

    def may(self, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        """Whether the caller may do that with the resource of that name, or the request is refused."""
        if self.authorizer is None:
            return self.may_all
        allowed = self._is_allowed(operation, resource, name)
        self.on_decided(Decision(allowed, self.principal, self.host, operation, resource, name, self.route, 1))
        return allowed

    def may_on_cluster(self, operation: AclOperation) -> bool:
        return self.may(operation, AclResourceType.CLUSTER, CLUSTER_NAME)

    def sees(self, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        """Whether the caller may do that; no decision about a request, which is counted and logged."""
        return self._is_allowed(operation, resource, name)

    def sees_cluster(self) -> bool:
        return self._is_allowed(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME)

    def sees_group(self, group: str) -> bool:
        """Return whether the caller sees the group, like in ListGroups: with DESCRIBE on the cluster, all groups."""
        return self.sees_cluster() or self._is_allowed(AclOperation.DESCRIBE, AclResourceType.GROUP, group)

    def sees_topic(self, topic: str) -> bool:
        return self._is_allowed(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic)

    def _is_allowed(self, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        if self.authorizer is None:
            return self.may_all
        return self.authorizer.allows(self.principal, self.host, operation, resource, name)

    @property
    def sees_all(self) -> bool:
        """Whether nothing is kept from the caller, whatever the names."""
        return self.authorizer is None and self.may_all


def current_caller() -> Caller:
    """Who sent the request that the current task serves, for its route."""
    return _CALLER.get()


class _Refused(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def changes(request: web.Request, resource: str, detail: str = "") -> None:
    """Name what the request changes, for the trail, which else has the body of the request."""
    request[_CHANGE] = resource, detail


def principal_of(request: web.Request, tls: TlsListeners) -> str | None:
    """Return the principal of the client's certificate; None without one.

    Raises _Refused if no mapping rule matches it.
    """
    connection = request.get_extra_info("ssl_object")
    certificate = None if connection is None else connection.getpeercert(binary_form=True)
    if certificate is None:
        return None
    user = tls.served(METRICS).principal_of(certificate)
    if user is None:
        raise _Refused(401, "no rule of ssl.principal.mapping.rules matches the certificate")
    return f"User:{user}"


class Callers:
    """The callers of one gateway; :attr:`middleware` checks each request."""

    def __init__(self, gateway: Gateway) -> None:
        """Raise PropertyFileError if the file of tokens cannot be read."""
        tokens = gateway.started_with.http_tokens_file
        self._tokens = None if tokens is None else TokensFile(Path(tokens))
        self._gateway = gateway

        @web.middleware
        async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
            _CALLER.set(Caller(ANONYMOUS, canonical_host(request.remote or ""), may_all=False))
            try:
                await self._admit(request)
            except _Refused as refused:
                response: web.StreamResponse = self._refusal(request, refused)
                await self._record(request, response.status, is_admitted=False)
                return response
            status = _FAILED
            try:
                response = await handler(request)
                status = response.status
            except web.HTTPException as error:
                status = error.status
                raise
            finally:
                await self._record(request, status)
            return response

        self.middleware = middleware

    @property
    def authenticates(self) -> bool:
        """Whether callers can say who they are."""
        tls = self._gateway.started_with.http_tls
        by_certificate = tls is not None and tls.client_auth != "none"
        return self._tokens is not None or self._gateway.sasl is not None or by_certificate

    @property
    def _is_required(self) -> bool:
        """Whether callers must say who they are: not on a port that is open by name if only listeners authenticate."""
        is_only_sasl = self._tokens is None and self._gateway.started_with.http_tls is None
        return self.authenticates and not (is_only_sasl and self._gateway.started_with.listeners_unauthenticated_enable)

    async def _admit(self, request: web.Request) -> None:
        route = _route(request)
        right = RIGHTS.get(route)
        if right is Right.NONE or not route[1]:  # no route: 404 or 405
            return
        if right is None:
            raise _Refused(403, "no right is defined for this route")
        caller = await self._caller(request)
        _CALLER.set(caller)
        if not _is_admitted(caller, right, request):
            needs_login = caller.principal == ANONYMOUS and self.authenticates
            raise _Refused(401 if needs_login else 403, f"{caller.principal} may not do this; it needs {right.value}")
        if caller.principal == ANONYMOUS and self._may_be_led(request, route):
            raise _Refused(403, _OTHER_NAME)
        if route in CHANGES and not self._gateway.config.http_changes_enable:
            raise _Refused(403, _CHANGES_DISABLED)

    def _may_be_led(self, request: web.Request, route: tuple[str, str]) -> bool:
        """Return whether another site may have led a browser here, to read records or to change something.

        Browsers name the origin of each change. Programs do not, and may use any name.
        """
        if route != _RECORDS and "Origin" not in request.headers:
            return False
        advertised = {host.lower() for broker in self._gateway.view.brokers for host, _ in broker.addresses}
        names = own_names() | advertised | listed(self._gateway.config.console_allowed_hosts)
        return not is_own(request.headers.get("Host", ""), names)

    async def _caller(self, request: web.Request) -> Caller:
        host = canonical_host(request.remote or "")
        principal = principal_of(request, self._gateway.tls)
        if principal is None and (header := request.headers.get("Authorization")) is not None:
            user = await self._user(header, host)
            if user is None:
                await asyncio.sleep(self._gateway.config.connection_failed_authentication_delay_ms / 1000)
                raise _Refused(401, "the credentials are not valid")
            principal = f"User:{user}"
        authorizer = self._gateway.authorizer
        may_all = authorizer is None and (principal is not None or not self._is_required)
        route = " ".join(_route(request))
        return Caller(principal or ANONYMOUS, host, may_all, authorizer, self._decided, route)

    def _decided(self, decision: Decision) -> None:
        self._gateway.metrics.authorized(decision.allowed)
        self._gateway.authorization_log.decided(decision)

    async def _user(self, header: str, host: str) -> str | None:
        """Return the user that the header proves; None if it proves none."""
        scheme, _, value = header.strip().partition(" ")
        if len(header) > _MAX_CREDENTIALS_CHARS:
            return None
        if scheme.lower() == "bearer" and self._tokens is not None:
            return await asyncio.to_thread(self._tokens.user_of, value.strip())
        if scheme.lower() == "basic" and self._gateway.sasl is not None:
            return await _user_with_password(self._gateway.sasl, value.strip(), host)
        return None

    async def _record(self, request: web.Request, status: int, *, is_admitted: bool = True) -> None:
        """In the gateway's trail, if it is a change, or the attempt of one. Waits for nothing that the client sends.

        Kafka requests of a route are recorded as such.
        """
        trail, route = self._gateway.trail, _route(request)
        is_recorded = is_admitted and route in _RECORDED_BY_KAFKA
        is_change = RIGHTS.get(route) is Right.CHANGE_CLUSTER or route in CHANGES
        if trail is None or not is_change or is_recorded:
            return
        caller, resource = current_caller(), request.match_info.get("id")
        detail = ""
        if _CHANGE in request:
            resource, detail = request[_CHANGE]
        elif status < 400 and not request.can_read_body:
            detail = " ".join((await request.read()).decode(errors="replace").split())
        change = Change(" ".join(route), CHANGES.get(route, "FAULT"), resource, str(status), detail or None)
        trail.record(DOOR, Who(caller.principal, caller.host), change)

    def _refusal(self, request: web.Request, refused: _Refused) -> web.Response:
        response = web.json_response({"error": str(refused)}, status=refused.status)
        if refused.status == 401:
            schemes = [("Bearer", self._tokens), ("Basic", self._gateway.sasl)]
            known = [f'{scheme} realm="muster"' for scheme, held in schemes if held is not None]
            response.headers["WWW-Authenticate"] = ", ".join(known)
        what = " ".join(_route(request))
        host = canonical_host(request.remote or "")
        self._gateway.limited_log.warning("http", host, "%s of %s is refused: %s", what, host, str(refused))
        return response


def _route(request: web.Request) -> tuple[str, str]:
    """Return the key in RIGHTS; without a path if there is none."""
    resource = request.match_info.route.resource
    method = "GET" if request.method == "HEAD" else request.method
    return method, "" if resource is None else resource.canonical


def _is_admitted(caller: Caller, right: Right, request: web.Request) -> bool:
    match right:
        case Right.NONE | Right.NAMES:
            return True
        case Right.GROUP_OR_ROWS if "group" in request.query:
            return _is_admitted(caller, Right.GROUP, request)
        case Right.ROWS | Right.GROUP_OR_ROWS | Right.KAFKA:
            return caller.authorizer is not None or caller.may_all
        case Right.GROUP:
            group = request.query.get("group", "")
            return caller.may(AclOperation.DESCRIBE, AclResourceType.GROUP, group)
        case Right.TOPIC:
            return caller.may(AclOperation.DESCRIBE, AclResourceType.TOPIC, request.query.get("topic", ""))
        case Right.READ_CLUSTER:
            return caller.may_on_cluster(AclOperation.DESCRIBE)
        case Right.CHANGE_CLUSTER:
            return caller.may_on_cluster(AclOperation.ALTER)


async def _user_with_password(sasl: Sasl, encoded: str, host: str) -> str | None:
    """Return the user of HTTP Basic (RFC 7617), if the password is right; checked like SASL PLAIN, in a thread."""
    try:
        user, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:
        return None
    if not colon or not user or not password:
        return None
    try:
        return user if await sasl.is_password(user, password, host) else None
    except TooBusy:
        return None
