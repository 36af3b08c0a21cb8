"""Headers of every response, and refusal of requests and sockets that another site sends.

NiceGUI takes a WebSocket from any origin; this does not. A Host that is a name must be one of the console's.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.gateway.security.host_names import is_own, own_names

CSP = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "object-src 'none'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'self'",
    )
)
"""Vue compiles templates in the browser, hence 'unsafe-eval'."""
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""Other sites get no referrer. With ``no-referrer``, browsers would send the console's own forms with Origin: null."""
_CSP = "Content-Security-Policy"
_UNSAFE = {"POST", "PUT", "PATCH", "DELETE"}
_REFUSED = b"this request was sent by another site, or to a name that is not the console's (see --allow-host)\n"


class Guard:
    """ASGI middleware around the whole app. ``hosts``: names that the console has, beside localhost."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._hosts = own_names() | {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if not is_own(headers.get("host", ""), self._hosts) or not _is_same_site(scope, headers):
            await _refuse(scope, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    if name != _CSP or _CSP not in found:  # a report has a stricter one
                        found[name] = value
                if "cache-control" not in found:
                    found["Cache-Control"] = "no-store"
            await send(message)

        await self._app(scope, receive, with_headers)


def _is_same_site(scope: Scope, headers: Headers) -> bool:
    """Return whether a change, or a socket, comes from a page of the console; reading needs no origin."""
    origin = headers.get("origin")
    is_socket = scope["type"] == "websocket" or scope["path"].startswith("/_nicegui_ws")
    if origin is not None and (is_socket or scope["method"] in _UNSAFE):
        return urlsplit(origin).netloc.lower() == headers.get("host", "").lower()
    if scope["type"] == "http" and scope["method"] in _UNSAFE and not is_socket:
        return headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")
    return True


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": _REFUSED})
