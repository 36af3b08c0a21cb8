"""Logins of the attacker's connections: by password (PLAIN), or by SCRAM with a password that was salted once.

An attack logs in for every second frame, since a refused frame closes its connection. PLAIN costs the service two
salted passwords each time, about half of its processor time; SCRAM costs it a few hashes.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from functools import lru_cache

from muster.actors.wire.kafka import codec
from muster.gateway.security.scram import salted_password

PLAIN, SCRAM = "PLAIN", "SCRAM-SHA-256"
_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36

Exchange = Callable[[bytes], Awaitable[bytes]]
"""Sends a frame without its size, and returns the response."""


class LoginFailed(Exception):
    """The service refused the user."""


_salted = lru_cache(salted_password)


async def log_in(exchange: Exchange, mechanism: str, user: str, password: str) -> None:
    """Authenticate a new connection. LoginFailed, and what ``exchange`` raises."""
    await exchange(codec.encode_request(_SASL_HANDSHAKE, 1, 0, "fuzz", {"mechanism": mechanism}))
    if mechanism == PLAIN:
        await _authenticate(exchange, f"\0{user}\0{password}".encode())
        return
    nonce = secrets.token_hex(12)
    first = f"n={user},r={nonce}"
    challenge = (await _authenticate(exchange, f"n,,{first}".encode())).decode()
    fields = dict(part.split("=", 1) for part in challenge.split(","))
    final = f"c=biws,r={fields['r']}"
    salted = _salted(SCRAM, password, b64decode(fields["s"]), int(fields["i"]))
    key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(key).digest(), f"{first},{challenge},{final}".encode(), "sha256")
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    await _authenticate(exchange, f"{final},p={b64encode(proof).decode()}".encode())


async def _authenticate(exchange: Exchange, token: bytes) -> bytes:
    response = await exchange(codec.encode_request(_SASL_AUTHENTICATE, 1, 0, "fuzz", {"auth_bytes": token}))
    entity = codec.decode_response(_SASL_AUTHENTICATE, 1, response)[1]
    if int(entity.error_code):
        raise LoginFailed(str(entity.error_code))
    return bytes(entity.auth_bytes)
