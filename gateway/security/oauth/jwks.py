"""The public keys of an identity provider (RFC 7517), from a file or a URL."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from aiohttp import ClientError, ClientSession, ClientTimeout
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK, PyJWTError

log = logging.getLogger(__name__)

AGAIN_S = 10.0
"""The keys are not requested more often: clients that are not known can name a key that does not exist."""
_TIMEOUT_S = 10.0
_MAX_BYTES = 1 << 20
_OF_RSA = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_OF_CURVE = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey | Ed448PublicKey


class JwksError(ValueError):
    """There are no usable keys."""


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A key, and what it may verify."""

    id: str | None
    algorithms: frozenset[str]
    key: PublicKey = field(repr=False)


def read_keys(data: bytes) -> tuple[VerificationKey, ...]:
    """Return the public keys for signatures; others, secret or malformed, are left out.

    Raises JwksError without any.
    """
    try:
        entries = json.loads(data)["keys"]
        found = [key for entry in entries if isinstance(entry, dict) and (key := _key(entry)) is not None]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise JwksError("it is no JSON of keys") from None
    if not found:
        raise JwksError("it has no public key for signatures")
    return tuple(found)


def _key(entry: Mapping[str, Any]) -> VerificationKey | None:
    try:
        if entry.get("use", "sig") != "sig" or "verify" not in entry.get("key_ops", ["verify"]):
            return None
        key = PyJWK({name: value for name, value in entry.items() if name != "alg"}).key
        algorithms = _algorithms(key) & {entry["alg"]} if "alg" in entry else _algorithms(key)
    except (PyJWTError, UnsupportedAlgorithm, ValueError, KeyError, TypeError):
        return None
    return VerificationKey(entry.get("kid"), algorithms, key) if algorithms else None


def _algorithms(key: object) -> frozenset[str]:
    """None of a key that is not public."""
    if isinstance(key, RSAPublicKey):
        return _OF_RSA
    if isinstance(key, EllipticCurvePublicKey):
        return frozenset(filter(None, [_OF_CURVE.get(key.curve.name)]))
    return frozenset({"EdDSA"} if isinstance(key, Ed25519PublicKey | Ed448PublicKey) else ())


class Jwks:
    """The keys at a URL. Reads them again in the background, and when a token names one that is not among them."""

    def __init__(
        self,
        url: str,
        refresh_s: float,
        now_s: Callable[[], float] = time.monotonic,
        *,
        authorities: str | None = None,
    ) -> None:
        """``url``: with the scheme file, http or https. ``authorities``: the PEM file of those who may have signed the
        certificate of https; None: those that the system trusts.
        """
        self._url = url
        self._authorities = authorities
        self._refresh_s = refresh_s
        self._now_s = now_s
        self._keys: tuple[VerificationKey, ...] = ()
        self._read_s = 0.0
        self._tried_s: float | None = None
        self._reading: asyncio.Task[None] | None = None

    async def keys(self, key_id: str | None) -> tuple[VerificationKey, ...]:
        """All current keys; those that were read last, while they cannot be read.

        Raises JwksError if there are none.
        """
        if not self._keys or (key_id is not None and all(key.id != key_id for key in self._keys)):
            if (reading := self._begin()) is not None:
                await asyncio.shield(reading)
        elif self._now_s() - self._read_s >= self._refresh_s:
            self._begin()
        if not self._keys:
            raise JwksError("the keys of the identity provider are not known")
        return self._keys

    def _begin(self) -> asyncio.Task[None] | None:
        """Return the reading that runs, or begins now; None if the last one was a moment ago."""
        if self._reading is None or self._reading.done():
            if self._tried_s is not None and self._now_s() - self._tried_s < AGAIN_S:
                return None
            self._tried_s = self._now_s()
            self._reading = asyncio.get_running_loop().create_task(self._read())
        return self._reading

    async def _read(self) -> None:
        try:
            self._keys = read_keys(await self._fetch())
        except TimeoutError:
            log.error("%s does not respond; the keys stay as they were", self._url)
        except (OSError, ClientError, JwksError) as error:
            log.error("%s cannot be read: %s; the keys stay as they were", self._url, error)
        else:
            self._read_s = self._now_s()

    async def _fetch(self) -> bytes:
        parts = urlsplit(self._url)
        if parts.scheme == "file":
            return await asyncio.to_thread(Path(url2pathname(parts.path)).read_bytes)
        data = bytearray()
        tls: ssl.SSLContext | bool = True
        if parts.scheme == "https":
            tls = await asyncio.to_thread(ssl.create_default_context, cafile=self._authorities)
        async with (
            ClientSession(timeout=ClientTimeout(total=_TIMEOUT_S)) as session,
            session.get(self._url, allow_redirects=False, ssl=tls) as response,
        ):
            if response.status != 200:
                raise JwksError(f"HTTP status {response.status}")
            async for part in response.content.iter_chunked(1 << 16):
                data += part
                if len(data) > _MAX_BYTES:
                    raise JwksError(f"it has more than {_MAX_BYTES} bytes")
        return bytes(data)

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
