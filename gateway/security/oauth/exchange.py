"""The server's side of OAUTHBEARER (RFC 7628), as Kafka's: the client sends a token, and is the user that it names.

An invalid token gets a status in JSON, which the client acknowledges, and then the failure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jwt

from muster.gateway.security.credentials import MAX_NAME_CHARS
from muster.gateway.security.mechanisms import AuthenticationFailed, InTurn, InvalidCredentials, Login
from muster.gateway.security.oauth.jwks import Jwks, JwksError, VerificationKey

FAILURE = '{"status":"invalid_token"}'
"""Kafka's."""
_MAX_EXPIRES_MS = 1 << 47
"""In the year 6429: a later end would not fit into a response."""
_SASL_NAME = r"(?:[^\0=,\x80-\U0010ffff]|=2C|=3D)+"
_FIRST = re.compile(
    rf"n,(?:a=(?P<authorization_id>{_SASL_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_AUTH = re.compile(r"bearer +(?P<token>[-_.A-Za-z0-9]+)", re.IGNORECASE)


class InvalidToken(ValueError):
    """Why, for the log."""


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """The client's first message."""

    authorization_id: str
    """Empty if the client names none."""
    token: str = field(repr=False)

    @classmethod
    def decode(cls, message: bytes) -> ClientFirst:
        """Decode the message. Extensions (KIP-342) are left out. Raises InvalidCredentials."""
        found = _FIRST.fullmatch(message.decode("latin-1"))
        if found is None:
            raise InvalidCredentials("not a client's first message")
        pairs = [pair.split("=", 1) for pair in found["pairs"].split("\1") if pair]
        tokens = [_AUTH.fullmatch(value) for name, value in pairs if name == "auth"]
        if len(tokens) != 1 or tokens[0] is None:
            raise InvalidCredentials("not one bearer token")
        name = (found["authorization_id"] or "").replace("=2C", ",").replace("=3D", "=")
        return cls(name, tokens[0]["token"])


@dataclass(frozen=True, slots=True)
class TokenRules:
    """Requirements on a token."""

    audience: tuple[str, ...]
    """One of them; any or none if empty."""
    issuer: str | None
    clock_skew_s: int
    sub_claim: str
    """The claim that is the user."""

    def login(self, token: str, keys: Sequence[VerificationKey]) -> Login:
        """Return the login of the token's user, until the token ends. Raises InvalidToken.

        As in Kafka, the token has to say when it was issued and when it ends.
        """
        try:
            header = jwt.get_unverified_header(token)
            algorithm, key_id = header.get("alg"), header.get("kid")
            fitting = [key for key in keys if algorithm in key.algorithms and key_id in (None, key.id)]
            claims = self._verified(token, str(algorithm), fitting)
            user, expires_ms = claims[self.sub_claim], int(claims["exp"] * 1000)
        except InvalidToken:
            raise
        except (jwt.PyJWTError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise InvalidToken(f"{type(error).__name__}: {error}") from None
        if not isinstance(user, str) or not 0 < len(user) <= MAX_NAME_CHARS or user != user.strip():
            raise InvalidToken(f"the claim {self.sub_claim} is not the name of a user")
        return Login(user, min(expires_ms, _MAX_EXPIRES_MS))

    def _verified(self, token: str, algorithm: str, keys: Sequence[VerificationKey]) -> dict[str, Any]:
        for key in keys:
            try:
                claims: dict[str, Any] = jwt.decode(
                    token,
                    key.key,
                    algorithms=[algorithm],
                    audience=self.audience or None,
                    issuer=self.issuer,
                    leeway=self.clock_skew_s,
                    options={
                        "require": ["exp", "iat", self.sub_claim],
                        "verify_aud": bool(self.audience),
                        "verify_sub": False,
                        "verify_jti": False,
                    },
                )
            except jwt.InvalidSignatureError:
                continue
            return claims
        raise InvalidToken("no key fits its signature")


class OAuthExchange:
    """One login."""

    def __init__(self, jwks: Jwks, rules: TokenRules, in_turn: InTurn) -> None:
        self.login: Login | None = None
        self._jwks = jwks
        self._rules = rules
        self._in_turn = in_turn
        self._refusal: str | None = None
        """Why the token is invalid."""

    async def respond(self, token: bytes) -> bytes:
        """See :class:`muster.gateway.security.mechanisms.Exchange`."""
        if self._refusal is not None:
            raise AuthenticationFailed(FAILURE, self._refusal)
        first = ClientFirst.decode(token)
        try:
            login = await self._login(first.token)
        except (InvalidToken, JwksError) as error:
            self._refusal = str(error)
            return FAILURE.encode()
        if first.authorization_id not in ("", login.user):
            raise AuthenticationFailed(
                f"Authentication failed: Client requested an authorization id ({first.authorization_id}) that is "
                f"different from the token's principal name ({login.user})"
            )
        self.login = login
        return b""

    async def _login(self, token: str) -> Login:
        try:
            key_id = jwt.get_unverified_header(token).get("kid")
        except (jwt.PyJWTError, ValueError, RecursionError) as error:
            raise InvalidToken(f"{type(error).__name__}: {error}") from None
        keys = await self._jwks.keys(key_id)
        return await self._in_turn(lambda: self._rules.login(token, keys))
