"""OAUTHBEARER: tokens of an identity provider, byte by byte and from librdkafka; and its keys."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiohttp import web
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from muster.actors.config import MusterConfig
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.security.oauth.exchange import FAILURE
from muster.gateway.security.oauth.jwks import AGAIN_S, Jwks, JwksError, read_keys
from tests.gateway.sasl_login import authenticate, handshake, works
from tests.gateway.serving import Client, Serving

RSA, OTHER = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
EC, ED = ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()
RSA_PEM = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
AUDIENCE, ISSUER, SKEW_S, REAUTH_S, WAIT_S = "kafka", "https://idp.test", 30, 3600, 20.0
SECRET = b"a secret that anyone may know, of 64 bytes or more, for HMAC-SHA512"


def _entry(key: Any, **more: Any) -> dict[str, Any]:
    public = key.public_key()
    if isinstance(key, rsa.RSAPrivateKey):
        text = RSAAlgorithm.to_jwk(public)
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        text = ECAlgorithm.to_jwk(public)
    else:
        text = OKPAlgorithm.to_jwk(public)
    return {**json.loads(text), **more}


SHARED = {"kty": "oct", "kid": "shared", "k": base64.urlsafe_b64encode(SECRET).decode()}
KEYS = [
    _entry(RSA, kid="rsa", alg="RS256", use="sig"),
    _entry(EC, kid="ec"),
    _entry(ED, kid="ed"),
    _entry(OTHER, kid="encrypts", use="enc"),
    SHARED,
    {"kty": "RSA", "kid": "damaged", "n": "!", "e": "AQAB"},
    _entry(OTHER, kid="for nothing", key_ops=None),
]


def PROPERTIES(storage: Path) -> dict[str, str]:
    _file(storage).write_text(json.dumps({"keys": KEYS}))
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": _file(storage).as_uri(),
        "sasl.oauthbearer.expected.audience": f"other, {AUDIENCE}",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.clock.skew.seconds": str(SKEW_S),
        "sasl.oauthbearer.sub.claim.name": "azp",
        "connections.max.reauth.ms": str(REAUTH_S * 1000),
        "connection.failed.authentication.delay.ms": "0",
    }


def _file(storage: Path) -> Path:
    return storage / "jwks.json"


def claims(**changes: Any) -> dict[str, Any]:
    """Return valid claims; None leaves one out."""
    now = int(time.time())
    valid = {"azp": "svc", "sub": "123", "aud": AUDIENCE, "iss": ISSUER, "iat": now, "exp": now + 600}
    return {name: value for name, value in {**valid, **changes}.items() if value is not None}


def token(key: Any = RSA, algorithm: str = "RS256", kid: str | None = "rsa", **changes: Any) -> str:
    return jwt.encode(claims(**changes), key, algorithm, headers={} if kid is None else {"kid": kid})


def first(bearer: str, gs2_header: str = "n,,", pairs: str = "") -> bytes:
    return f"{gs2_header}\1auth=Bearer {bearer}\1{pairs}\1".encode()


def log_in(client: Client, message: bytes) -> Any:
    assert handshake(client, "OAUTHBEARER").error_code is ErrorCode.none
    return authenticate(client, message)


ACCEPTED: dict[str, Callable[[], bytes]] = {
    "RSA": lambda: first(token()),
    "an elliptic curve": lambda: first(token(EC, "ES256", "ec")),
    "Ed25519": lambda: first(token(ED, "EdDSA", "ed")),
    "no key id": lambda: first(token(kid=None)),
    "one of several audiences": lambda: first(token(aud=["x", AUDIENCE])),
    "within the skew": lambda: first(token(iat=int(time.time()) - 600, exp=int(time.time()) - SKEW_S + 10)),
    "its user as authorization id": lambda: first(token(), "n,a=svc,"),
    "extensions": lambda: first(token(), pairs="traceId=12 3\1"),
}


@pytest.mark.parametrize("message", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_what_is_accepted(full: Serving, message: Callable[[], bytes]) -> None:
    with full.connect() as client:
        response = log_in(client, message())
        assert (response.error_code, response.auth_bytes) == (ErrorCode.none, b"")
        (connection,) = [each for each in full.gateway.connections.values() if each.port == client.port]
        assert connection.principal == "User:svc"


@pytest.mark.parametrize(("life_s", "session_s"), [(600, 600), (REAUTH_S + 600, REAUTH_S)])
def test_the_life_of_the_token_bounds_the_session(full: Serving, life_s: int, session_s: int) -> None:
    with full.connect() as client:
        response = log_in(client, first(token(exp=int(time.time()) + life_s)))
        assert (session_s - WAIT_S) * 1_000 < response.session_lifetime <= session_s * 1_000
        assert works(client)


def test_an_end_beyond_all_limits(full: Serving) -> None:
    with full.connect() as client:
        assert log_in(client, first(token(exp=10**18))).session_lifetime == REAUTH_S * 1_000


def _unsigned() -> str:
    parts = [json.dumps(each).encode() for each in ({"alg": "none", "kid": "rsa"}, claims())]
    return ".".join([*(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts), ""])


def _with_public_key_as_secret() -> str:
    """Return a token that a verifier accepts if it takes the algorithm from the token alone."""
    head = {"alg": "HS256", "kid": "rsa"}
    signed = ".".join(
        base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in (head, claims())
    )
    mac = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(signed.encode(), RSA_PEM)
    return f"{signed}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


REFUSED: dict[str, Callable[[], str]] = {
    "it has ended": lambda: token(iat=int(time.time()) - 600, exp=int(time.time()) - SKEW_S - 1),
    "it has no end": lambda: token(exp=None),
    "it has no begin": lambda: token(iat=None),
    "it is of the future": lambda: token(iat=int(time.time()) + SKEW_S + 100),
    "it is not valid yet": lambda: token(nbf=int(time.time()) + SKEW_S + 100),
    "its end is no number": lambda: token(exp="never"),
    "its end is infinite": lambda: token(exp=float("inf")),
    "another audience": lambda: token(aud="x"),
    "no audience": lambda: token(aud=None),
    "another issuer": lambda: token(iss="https://idp.test/"),
    "no issuer": lambda: token(iss=None),
    "no user": lambda: token(azp=None),
    "an empty user": lambda: token(azp=""),
    "a user of spaces": lambda: token(azp=" "),
    "a user that is no text": lambda: token(azp=["svc"]),
    "a user that is too long": lambda: token(azp="x" * 256),
    "another key": lambda: token(OTHER),
    "another key's id": lambda: token(kid="missing"),
    "a key that does not exist": lambda: token(OTHER, kid="missing"),
    "a key for encryption": lambda: token(OTHER, kid="encrypts"),
    "another algorithm of the key": lambda: token(algorithm="RS512"),
    "a shared secret": lambda: token(SECRET, "HS256", "shared"),
    "a public key as secret": _with_public_key_as_secret,
    "no signature": _unsigned,
    "not a token": lambda: "a.b.c",
    "nothing like one": lambda: "x" * 10_000,
}


@pytest.mark.parametrize("bearer", REFUSED.values(), ids=REFUSED.keys())
def test_an_invalid_token_gets_a_status_and_then_the_failure(
    full: Serving, caplog: pytest.LogCaptureFixture, bearer: Callable[[], str]
) -> None:
    full.flush_complaints()
    caplog.set_level(logging.INFO, "muster.gateway.listener.connection")
    sent = bearer()
    with full.connect() as client:
        status = log_in(client, first(sent))
        assert (status.error_code, status.auth_bytes) == (ErrorCode.none, FAILURE.encode())
        failure = authenticate(client, b"\1")
        assert (failure.error_code, failure.error_message) == (ErrorCode.sasl_authentication_failed, FAILURE)
        assert client.is_closed()
    assert "closed: OAUTHBEARER" in caplog.text
    assert sent not in caplog.text


MALFORMED = {
    "nothing": b"",
    "no token": b"n,,\1\1",
    "two tokens": b"n,,\1auth=Bearer a.b.c\1auth=Bearer a.b.c\1\1",
    "another scheme": b"n,,\1auth=Basic abc\1\1",
    "channel binding": b"p=tls-unique,,\1auth=Bearer a.b.c\1\1",
    "possible channel binding": b"y,,\1auth=Bearer a.b.c\1\1",
    "no end": b"n,,\1auth=Bearer a.b.c\1",
    "bytes": b"\xff\0",
}


@pytest.mark.parametrize("message", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_message_fails_at_once(full: Serving, message: bytes) -> None:
    with full.connect() as client:
        response = log_in(client, message)
        assert response.error_code is ErrorCode.sasl_authentication_failed
        assert "invalid credentials with SASL mechanism OAUTHBEARER" in response.error_message
        assert client.is_closed()


def test_another_authorization_id_is_refused(full: Serving) -> None:
    with full.connect() as client:
        response = log_in(client, first(token(), "n,a=root,"))
        assert response.error_code is ErrorCode.sasl_authentication_failed
        assert response.error_message == (
            "Authentication failed: Client requested an authorization id (root) that is different from the token's "
            "principal name (svc)"
        )
        assert client.is_closed()


def test_librdkafka_logs_in(full: Serving) -> None:
    admin = AdminClient(
        {
            "bootstrap.servers": full.reachable(),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (token(), time.time() + 600),  # type: ignore[dict-item]
        }
    )
    assert admin.list_topics(timeout=WAIT_S).brokers
    assert "User:svc" in {each.principal for each in full.gateway.connections.values()}


class Provider:
    """An identity provider."""

    def __init__(self) -> None:
        self.keys: list[dict[str, Any]] = [_entry(RSA, kid="rsa")]
        self.status = 200
        self.requests = 0
        self.responds = asyncio.Event()
        self.responds.set()

    async def serve(self, _: web.Request) -> web.Response:
        self.requests += 1
        await self.responds.wait()
        return web.json_response({"keys": self.keys}, status=self.status)


async def _with_provider(test: Callable[[Provider, Jwks, list[float]], Any]) -> None:
    provider, now_s = Provider(), [1000.0]
    app = web.Application()
    app.router.add_get("/keys", provider.serve)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = runner.addresses[0][1]
    jwks = Jwks(f"http://127.0.0.1:{port}/keys", 3600, lambda: now_s[0])
    try:
        await asyncio.wait_for(test(provider, jwks, now_s), WAIT_S)
    finally:
        jwks.close()
        await runner.cleanup()


def ids(keys: Any) -> list[str]:
    return [key.id for key in keys]


def test_keys_are_requested_once_while_the_loop_runs() -> None:
    async def test(provider: Provider, jwks: Jwks, _: list[float]) -> None:
        provider.responds.clear()
        waiting = [asyncio.create_task(jwks.keys("rsa")) for _ in range(3)]
        while not provider.requests:  # noqa: ASYNC110 - the loop runs meanwhile
            await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        provider.responds.set()
        assert [ids(await task) for task in waiting] == [["rsa"]] * 3
        assert ids(await jwks.keys("rsa")) == ["rsa"]
        assert provider.requests == 1

    asyncio.run(_with_provider(test))


def test_new_keys_are_found_and_clients_cannot_have_them_requested_often() -> None:
    async def test(provider: Provider, jwks: Jwks, now_s: list[float]) -> None:
        await jwks.keys("rsa")
        provider.keys.append(_entry(EC, kid="new"))
        for _ in range(5):
            assert ids(await jwks.keys("new")) == ["rsa"]
        assert provider.requests == 1
        now_s[0] += AGAIN_S
        assert ids(await jwks.keys("new")) == ["rsa", "new"]
        assert provider.requests == 2

    asyncio.run(_with_provider(test))


def test_old_keys_are_used_while_new_ones_are_read(caplog: pytest.LogCaptureFixture) -> None:
    async def test(provider: Provider, jwks: Jwks, now_s: list[float]) -> None:
        await jwks.keys("rsa")
        provider.keys, provider.status = [_entry(EC, kid="new")], 503
        now_s[0] += 3600
        assert ids(await jwks.keys("rsa")) == ["rsa"]
        assert jwks._reading is not None
        await jwks._reading
        assert "HTTP status 503; the keys stay as they were" in caplog.text
        provider.status = 200
        now_s[0] += AGAIN_S
        assert ids(await jwks.keys("rsa")) == ["rsa"]
        await jwks._reading
        assert ids(await jwks.keys("new")) == ["new"]

    asyncio.run(_with_provider(test))


def test_without_keys_no_one_logs_in(tmp_path: Path) -> None:
    async def test() -> None:
        jwks = Jwks((tmp_path / "missing").as_uri(), 3600)
        with pytest.raises(JwksError):
            await jwks.keys("rsa")

    asyncio.run(test())


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"keys": 1}', b'{"keys": [1]}', b'{"keys": []}', b"[" * 100_000])
def test_what_is_not_keys(data: bytes) -> None:
    with pytest.raises(JwksError):
        read_keys(data)
    with pytest.raises(JwksError):
        read_keys(json.dumps({"keys": [SHARED]}).encode())


@pytest.mark.parametrize(
    "url", [None, "ftp://idp.test/keys", "idp.test", "https://", "https://u:p@idp.test/", "file://x/y"]
)
def test_oauthbearer_needs_the_url_of_keys(url: str | None) -> None:
    properties = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "OAUTHBEARER"}
    if url is not None:
        properties["sasl.oauthbearer.jwks.endpoint.url"] = url
    with pytest.raises(ValueError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url"):
        MusterConfig.from_properties(properties)
