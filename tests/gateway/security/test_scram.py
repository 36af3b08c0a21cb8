"""SCRAM byte by byte: RFC 7677's example, what is refused, and what an unknown user's login shows."""

from __future__ import annotations

import asyncio
import logging
import sys
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from muster.actors.config import MusterConfig
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.security import scram
from muster.gateway.security.credentials import Credentials, write
from muster.gateway.security.sasl import Sasl
from muster.gateway.security.scram import SCRAM_MECHANISMS, ClientFirst, ScramCredential, ServerExchange
from muster.placement.security.entities import Entity, EntityAlteration
from tests.gateway.sasl_login import RawScram, authenticate, by_scram, handshake, works
from tests.gateway.serving import Client, Serving, new_gateway

PASSWORD = "pencil"
SHA_256, SHA_512 = SCRAM_MECHANISMS
INVALID = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {SHA_256}"
COMMA = "a,b=c"


def PROPERTIES(storage: Path) -> dict[str, str]:
    held = {SHA_256: ScramCredential.of_password(SHA_256, PASSWORD)}
    write(storage / "users.properties", {"ann": held, COMMA: held})
    return {
        "sasl.enabled.mechanisms": ",".join(SCRAM_MECHANISMS),
        "sasl.credentials.file": str(storage / "users.properties"),
        "connection.failed.authentication.delay.ms": "0",
    }


def test_the_example_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    credential = ScramCredential(
        salt=b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="),
        stored_key=b64decode("WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="),
        server_key=b64decode("wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="),
        iterations=4096,
    )
    salted = scram.salted_password(SHA_256, PASSWORD, credential.salt, 4096)
    assert ScramCredential.of_salted(SHA_256, credential.salt, salted, 4096) == credential
    monkeypatch.setattr(
        "muster.gateway.security.scram.secrets.token_urlsafe", lambda _: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    exchange = ServerExchange(SHA_256, ClientFirst.decode(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"), credential)
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert exchange.server_first == f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert exchange.server_final(final.encode()) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    for wrong in (
        final.replace("p=dH", "p=dI"),
        final.replace("k0,", "k1,"),
        final.replace("biws", "eSws"),
        final[:-4],
        "",
    ):
        with pytest.raises(scram.ScramError):
            exchange.server_final(wrong.encode())


def log_in(client: Client, login: RawScram, mechanism: str = SHA_256) -> Any:
    """Log in; return the response to the last token that the gateway lets the client send."""
    assert handshake(client, mechanism).error_code is ErrorCode.none
    response = authenticate(client, login.first)
    return response if response.error_code else authenticate(client, login.final(response.auth_bytes))


ACCEPTED = {
    "an escaped name": (RawScram(SHA_256, PASSWORD, "n=a=2Cb=3Dc,r=abcdef"), f"User:{COMMA}"),
    "the name as authorization id": (RawScram(SHA_256, PASSWORD, "n=ann,r=abcdef", "n,a=ann,"), "User:ann"),
    "an escaped authorization id": (
        RawScram(SHA_256, PASSWORD, "n=a=2Cb=3Dc,r=abcdef", "n,a=a=2Cb=3Dc,"),
        f"User:{COMMA}",
    ),
    "an unknown extension": (RawScram(SHA_256, PASSWORD, "n=ann,r=abcdef,x=1"), "User:ann"),
    "no token login": (RawScram(SHA_256, PASSWORD, "n=ann,r=abcdef,tokenauth=false"), "User:ann"),
}


@pytest.mark.parametrize(("login", "principal"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_what_is_accepted(full: Serving, login: RawScram, principal: str) -> None:
    with full.connect() as client:
        assert log_in(client, login).error_code is ErrorCode.none
        assert works(client)
        (connection,) = [each for each in full.gateway.connections.values() if each.port == client.port]
        assert connection.principal == principal


REFUSED = {
    "channel binding": RawScram(SHA_256, PASSWORD, "n=ann,r=abcdef", "p=tls-unique,,"),
    "possible channel binding": RawScram(SHA_256, PASSWORD, "n=ann,r=abcdef", "y,,"),
    "a delegation token": RawScram(SHA_256, PASSWORD, "n=ann,r=abcdef,tokenauth=true"),
    "another escape": RawScram(SHA_256, PASSWORD, "n=a=2cb,r=abcdef"),
    "a mandatory extension": RawScram(SHA_256, PASSWORD, "m=1,n=ann,r=abcdef"),
    "no name": RawScram(SHA_256, PASSWORD, "n=,r=abcdef"),
    "no nonce": RawScram(SHA_256, PASSWORD, "n=ann,r="),
    "a wrong password": RawScram(SHA_256, "pen", "n=ann,r=abcdef"),
}


@pytest.mark.parametrize("login", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(full: Serving, login: RawScram) -> None:
    with full.connect() as client:
        response = log_in(client, login)
        assert (response.error_code, response.error_message) == (ErrorCode.sasl_authentication_failed, INVALID)
        assert client.is_closed()


@pytest.fixture
def stored(full: Serving) -> Iterator[None]:
    """Users of ZooKeeper with 8192 iterations, and one that is malformed."""
    held = {each: ScramCredential.of_password(each, PASSWORD, 8192).encode() for each in SCRAM_MECHANISMS}
    users = [EntityAlteration(entity=Entity.of_user(f"user {number}"), set=held) for number in range(3)]
    users.append(EntityAlteration(entity=Entity.of_user("malformed"), set={SHA_256: "salt=secret"}))
    full.run(full.controller.alter_entities(users))
    full.follow(full.controller.view())
    yield
    removed = [EntityAlteration(entity=each.entity, remove=frozenset(SCRAM_MECHANISMS)) for each in users]
    full.run(full.controller.alter_entities(removed))


def server_first(port: int, user: str, mechanism: str = SHA_256) -> dict[str, str]:
    """Return the attributes of the gateway's first message about the user's credential, without the nonce."""
    with Client(port) as client:
        handshake(client, mechanism)
        response = authenticate(client, f"n,,n={user},r=abcdef".encode())
        fields = dict(part.split("=", 1) for part in response.auth_bytes.decode().split(","))
        return {name: fields[name] for name in ("s", "i")}


def test_an_unknown_user_looks_the_same_on_every_gateway(full: Serving, stored: None, tmp_path: Path) -> None:
    async def second() -> tuple[Any, int]:
        gateway = await new_gateway(2, tmp_path, full.gateway.started_with, full.controller)
        return gateway, await gateway.listen("127.0.0.1", 0)

    gateway, port = full.run(second())
    try:
        for mechanism in SCRAM_MECHANISMS:
            here, there = server_first(full.port, "bob", mechanism), server_first(port, "bob", mechanism)
            assert here == there == server_first(full.port, "bob", mechanism)
            known = server_first(full.port, "user 1", mechanism)
            assert known == server_first(port, "user 1", mechanism)
            assert here["i"] == known["i"] == "8192"
            assert len(here["s"]) == len(known["s"])
        salts = {server_first(port, user, each)["s"] for user in ("bob", "eve") for each in SCRAM_MECHANISMS}
        assert len(salts) == 4
    finally:
        full.run(gateway.stop())


_OF_FOUND_KEY = "__create_fn__.<locals>.__eq__"
"""Comparison of Entity: a dictionary compares the key that it has found."""


def calls_of(work: Callable[[], object]) -> Counter[str]:
    """Return the functions that the work calls, and how often."""
    calls: Counter[str] = Counter()

    def count(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            calls[frame.f_code.co_qualname] += 1
        elif event == "c_call" and argument is not sys.setprofile:
            calls[argument.__qualname__] += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def test_the_same_work_is_done_for_every_user() -> None:
    held = {each: ScramCredential.of_password(each, PASSWORD) for each in SCRAM_MECHANISMS}
    both = {mechanism: credential.encode() for mechanism, credential in held.items()}
    entities = {
        Entity.of_user("both"): both,
        Entity.of_user("one"): {SHA_512: both[SHA_512]},
        Entity.of_user("other"): {SHA_256: both[SHA_256], "producer_byte_rate": "1"},
        Entity.of_user("quota"): {"producer_byte_rate": "1"},
    }
    credentials = Credentials({"file": held}, entities, b"secret")
    credentials.scram("both", SHA_256)  # counts once which iterations are usual
    expected = calls_of(partial(credentials.scram, "bob", SHA_256))
    assert expected["ScramCredential.decode"] == 1
    for user in ("both", "one", "other", "quota", "file"):
        calls = calls_of(partial(credentials.scram, user, SHA_256))
        del calls[_OF_FOUND_KEY]
        assert calls == expected, user
    assert credentials.scram("both", SHA_256) == held[SHA_256]
    assert credentials.scram("file", SHA_512) == held[SHA_512]
    assert credentials.scram("one", SHA_256) not in held.values()


def test_a_malformed_credential_is_logged_once_for_each_change(
    full: Serving, stored: None, caplog: pytest.LogCaptureFixture
) -> None:
    def lines() -> list[str]:
        return [each.getMessage() for each in caplog.records if each.name == "muster.gateway.security.credentials"]

    def attempt() -> None:
        with full.connect() as client:
            response = by_scram(client, SHA_256, "malformed", PASSWORD)
            assert response.error_code is ErrorCode.sasl_authentication_failed

    caplog.set_level(logging.WARNING)
    attempt()
    full.follow(full.controller.view())
    attempt()
    text = f"the {SHA_256} credential of 'malformed' in ZooKeeper needs salt, stored_key, server_key and iterations"
    assert lines() == [f"{text}, each once"]
    change = EntityAlteration(entity=Entity.of_user("malformed"), set={SHA_256: "salt=other"})
    full.run(full.controller.alter_entities([change]))
    full.follow(full.controller.view())
    attempt()
    assert lines() == [f"{text}, each once"] * 2


def test_without_a_file_it_is_logged_once_too(caplog: pytest.LogCaptureFixture) -> None:
    async def attempt(sasl: Sasl) -> None:
        exchange = await sasl.exchange(SHA_256, "127.0.0.1")
        assert await exchange.respond(b"n,,n=malformed,r=abcdef")

    async def test() -> None:
        properties = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": SHA_256}
        sasl = Sasl.of(MusterConfig.from_properties(properties))
        assert sasl is not None
        sasl.follow({Entity.of_user("malformed"): {SHA_256: "salt=secret"}}, b"secret")
        for _ in range(3):
            await attempt(sasl)
        sasl.close()

    asyncio.run(test())
    assert len(caplog.records) == 1
