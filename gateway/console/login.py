"""Who looks: credentials by session, in this process's memory only.

The browser has a random session id in a cookie (HttpOnly, SameSite=Strict, Secure under https). The console passes the
credentials on to gateways unchanged, so these decide what the viewer may see and do.
"""

from __future__ import annotations

import base64
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request, Response

COOKIE = "muster-console"
LASTS_S = 12 * 3600.0
UNUSED_S = 3600.0
"""A session ends after this time without a request, or a page that is open."""
MAX_SESSIONS = 1_000
_ID_BYTES = 32
_MAX_CHARS = 4_096


@dataclass(slots=True)
class Session:
    """One viewer who has logged in."""

    authorization: str = field(repr=False)
    user: str
    began_s: float
    used_s: float

    def has_ended(self, now_s: float) -> bool:
        """Return whether the session is over."""
        return now_s - self.began_s > LASTS_S or now_s - self.used_s > UNUSED_S


class Sessions:
    """The sessions, by their ids. Bounded: the one that was not used for longest makes room."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    def open(self, authorization: str, user: str) -> str:
        """Return the id of a new session."""
        now_s = time.monotonic()
        for key in [key for key, session in self._sessions.items() if session.has_ended(now_s)]:
            del self._sessions[key]
        if len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[min(self._sessions, key=lambda key: self._sessions[key].used_s)]
        key = secrets.token_urlsafe(_ID_BYTES)
        self._sessions[key] = Session(authorization, user, now_s, now_s)
        return key

    def of(self, request: Request) -> Session | None:
        """Return the session of the request's cookie; None if there is none or it is over."""
        return self.with_id(request.cookies.get(COOKIE, ""))

    def with_id(self, key: str) -> Session | None:
        """Return the session; None if there is none or it is over."""
        session, now_s = self._sessions.get(key), time.monotonic()
        if session is None:
            return None
        if session.has_ended(now_s):
            del self._sessions[key]
            return None
        session.used_s = now_s
        return session

    def close(self, key: str) -> Session | None:
        """End a session. Returns it."""
        return self._sessions.pop(key, None)


def basic(user: str, password: str) -> str:
    """Return the header for a user with a password (RFC 7617). Raises ValueError if the user has a colon."""
    if ":" in user:
        raise ValueError("a user name with a colon cannot be sent over HTTP")
    _check(user + password)
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def bearer(token: str) -> str:
    """Return the header for a token (RFC 6750). Raises ValueError if it cannot be one."""
    _check(token)
    if not token.isascii() or any(char.isspace() for char in token):
        raise ValueError("a token has neither spaces nor letters beyond ASCII")
    return f"Bearer {token}"


def _check(text: str) -> None:
    if len(text) > _MAX_CHARS or any(ord(char) < 32 for char in text):
        raise ValueError("these cannot be credentials")


def set_cookie(response: Response, request: Request, key: str) -> None:
    """Set the session's cookie; an empty key removes it."""
    options: dict[str, Any] = {
        "httponly": True,
        "samesite": "strict",
        "secure": request.url.scheme == "https",
        "path": "/",
    }
    if key:
        response.set_cookie(COOKIE, key, **options)
    else:
        response.delete_cookie(COOKIE, **options)
