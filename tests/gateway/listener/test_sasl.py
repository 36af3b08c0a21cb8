"""SASL on the listener: handshake, tokens, refusals, and the principal; byte by byte."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scramp import ScramClient

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.security.credentials import write
from muster.gateway.security.mechanisms import MAX_TOKEN_BYTES
from muster.gateway.security.scram import SCRAM_MECHANISMS, ScramCredential
from tests.gateway.serving import Client, Serving

HANDSHAKE, AUTHENTICATE, API_VERSIONS, METADATA = 17, 36, 18, 3
PASSWORD = "ann's pass=word,ä"
MAX_RECEIVE_BYTES = 524_288
OTHER_IDENTITY = "Authentication failed: Client requested an authorization id that is different from username"
INVALID = "Authentication failed during authentication due to invalid credentials with SASL mechanism"


_HELD = {mechanism: ScramCredential.of_password(mechanism, PASSWORD) for mechanism in SCRAM_MECHANISMS}
USERS = {"ann": _HELD, "only 512": {"SCRAM-SHA-512": _HELD["SCRAM-SHA-512"]}}


def PROPERTIES(storage: Path) -> dict[str, str]:
    write(_users_of(storage), USERS)
    return {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.credentials.file": str(_users_of(storage)),
    }


def _users_of(storage: Path) -> Path:
    return storage / "users.properties"


@pytest.fixture
def secured(full: Serving) -> Iterator[Serving]:
    yield full
    assert full.actors is not None
    write(_users_of(full.actors.storage), USERS)


@pytest.fixture
def reasons(secured: Serving, caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    secured.flush_complaints()
    caplog.set_level(logging.INFO, "muster.gateway.listener.connection")
    return lambda: [
        record.getMessage() for record in caplog.records if record.name == "muster.gateway.listener.connection"
    ]


def _handshake(client: Client, mechanism: str, version: int = 1) -> Any:
    return client.exchange(HANDSHAKE, version, {"mechanism": mechanism})


def _authenticate(client: Client, token: bytes, version: int = 2) -> Any:
    return client.exchange(AUTHENTICATE, version, {"auth_bytes": token})


def _plain(user: str = "ann", password: str = PASSWORD, authorization_id: str = "") -> bytes:
    return "\0".join((authorization_id, user, password)).encode()


def _works(client: Client) -> bool:
    return bool(client.exchange(METADATA, 4, NO_TOPICS).cluster_id)


def _principals(served: Serving) -> set[str]:
    return {connection.principal for connection in served.gateway.connections.values()}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_plain(secured: Serving, version: int) -> None:
    with secured.connect() as client:
        shaken = _handshake(client, "PLAIN")
        assert (shaken.error_code, shaken.mechanisms) == (ErrorCode.none, ("PLAIN", *SCRAM_MECHANISMS))
        response = _authenticate(client, _plain(), version)
        assert (response.error_code, response.error_message, response.auth_bytes) == (ErrorCode.none, None, b"")
        if version:
            assert not response.session_lifetime
        assert _works(client)
        assert "User:ann" in _principals(secured)
        (connection,) = [c for c in secured.gateway.connections.values() if c.principal == "User:ann"]
        assert connection.attribution.principal == "User:ann"
        assert b'"User:ann"' in connection.context


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_scram(secured: Serving, mechanism: str) -> None:
    with secured.connect() as client:
        assert _handshake(client, mechanism).error_code is ErrorCode.none
        scram = ScramClient([mechanism], "ann", PASSWORD)
        scram.set_server_first(_authenticate(client, scram.get_client_first().encode()).auth_bytes.decode())
        scram.set_server_final(_authenticate(client, scram.get_client_final().encode()).auth_bytes.decode())
        assert _works(client)


def test_after_a_handshake_v0_tokens_are_bare_frames(secured: Serving) -> None:
    with secured.connect() as client:
        assert _handshake(client, "SCRAM-SHA-256", version=0).error_code is ErrorCode.none
        scram = ScramClient(["SCRAM-SHA-256"], "ann", PASSWORD)
        client.send(scram.get_client_first().encode())
        scram.set_server_first(client.receive().decode())
        client.send(scram.get_client_final().encode())
        scram.set_server_final(client.receive().decode())
        assert _works(client)


def test_the_whole_login_in_one_packet_and_in_single_bytes(secured: Serving) -> None:
    with secured.connect() as client:
        client.request(API_VERSIONS, 0, {})
        client.request(HANDSHAKE, 1, {"mechanism": "PLAIN"})
        client.request(AUTHENTICATE, 2, {"auth_bytes": _plain()})
        client.request(METADATA, 4, NO_TOPICS)
        client.response(API_VERSIONS, 0)
        assert client.response(HANDSHAKE, 1).error_code is ErrorCode.none
        assert client.response(AUTHENTICATE, 2).error_code is ErrorCode.none
        assert client.response(METADATA, 4).cluster_id
    sent = bytearray()
    with secured.connect() as client:
        client.send_raw, send = sent.extend, client.send_raw  # type: ignore[assignment]
        client.request(HANDSHAKE, 1, {"mechanism": "PLAIN"})
        client.request(AUTHENTICATE, 2, {"auth_bytes": _plain()})
        for byte in sent:
            send(bytes([byte]))
        assert client.response(HANDSHAKE, 1).error_code is ErrorCode.none
        assert client.response(AUTHENTICATE, 2).error_code is ErrorCode.none


def test_every_client_gets_the_versions(secured: Serving) -> None:
    with secured.connect() as client:
        versions = {api.api_key: api.max_version for api in client.exchange(API_VERSIONS, 3, SOFTWARE).api_keys}
        assert (versions[HANDSHAKE], versions[AUTHENTICATE]) == (1, 2)
        assert _handshake(client, "PLAIN").error_code is ErrorCode.none
        assert _authenticate(client, _plain()).error_code is ErrorCode.none
        client.exchange(API_VERSIONS, 3, SOFTWARE)


NO_TOPICS: dict[str, Any] = {"topics": [], "allow_auto_topic_creation": False}
SOFTWARE = {"client_software_name": "test", "client_software_version": "1"}
WRONG = {
    "a wrong password": ("PLAIN", _plain(password="wrong"), "Authentication failed: Invalid username or password"),
    "an unknown user": ("PLAIN", _plain(user="bob"), "Authentication failed: Invalid username or password"),
    "another identity": (
        "PLAIN",
        _plain(authorization_id="root"),
        OTHER_IDENTITY,
    ),
    "no user": ("PLAIN", _plain(user=""), "Authentication failed: username not specified"),
    "no password": ("PLAIN", _plain(password=""), "Authentication failed: password not specified"),
    "too few parts": ("PLAIN", b"ann", f"{INVALID} PLAIN"),
    "too many parts": ("PLAIN", _plain() + b"\0", f"{INVALID} PLAIN"),
    "no text": ("PLAIN", b"\xff\0\xfe\0\xff", f"{INVALID} PLAIN"),
    "nothing": ("SCRAM-SHA-256", b"", f"{INVALID} SCRAM-SHA-256"),
    "no scram": ("SCRAM-SHA-512", _plain(), f"{INVALID} SCRAM-SHA-512"),
    "channel binding": ("SCRAM-SHA-256", b"p=tls-unique,,n=ann,r=abcdef", f"{INVALID} SCRAM-SHA-256"),
    "a scram identity": ("SCRAM-SHA-256", b"n,a=root,n=ann,r=abcdef", OTHER_IDENTITY),
    "too long": ("PLAIN", _plain(password="x" * MAX_TOKEN_BYTES), "Authentication failed: a token of 4101 bytes"),
}


@pytest.mark.parametrize(("mechanism", "token", "says"), WRONG.values(), ids=WRONG.keys())
def test_a_failed_login_is_answered_in_kafkas_words_and_closed(
    secured: Serving, reasons: Callable[[], list[str]], mechanism: str, token: bytes, says: str
) -> None:
    with secured.connect() as client:
        assert _handshake(client, mechanism).error_code is ErrorCode.none
        response = _authenticate(client, token)
        assert (response.error_code, response.error_message) == (ErrorCode.sasl_authentication_failed, says)
        assert client.is_closed()
    assert f"closed: {mechanism}: {says}" in reasons()[-1]


@pytest.mark.parametrize("user", ["ann", "bob"])
def test_a_wrong_scram_password_is_found_in_the_last_step_for_unknown_users_too(secured: Serving, user: str) -> None:
    with secured.connect() as client:
        _handshake(client, "SCRAM-SHA-256")
        scram = ScramClient(["SCRAM-SHA-256"], user, "wrong")
        scram.set_server_first(_authenticate(client, scram.get_client_first().encode()).auth_bytes.decode())
        response = _authenticate(client, scram.get_client_final().encode())
        assert (response.error_code, response.error_message) == (
            ErrorCode.sasl_authentication_failed,
            f"{INVALID} SCRAM-SHA-256",
        )
        assert client.is_closed()


def test_what_is_pipelined_behind_a_failed_login_is_not_served(secured: Serving) -> None:
    with secured.connect() as client:
        client.request(HANDSHAKE, 1, {"mechanism": "PLAIN"})
        client.request(AUTHENTICATE, 2, {"auth_bytes": _plain(password="wrong")})
        client.request(METADATA, 4, NO_TOPICS)
        client.response(HANDSHAKE, 1)
        assert client.response(AUTHENTICATE, 2).error_code is ErrorCode.sasl_authentication_failed
        assert client.is_closed()


def test_a_bare_token_that_is_wrong_only_closes(secured: Serving) -> None:
    with secured.connect() as client:
        _handshake(client, "PLAIN", version=0)
        client.send(_plain(password="wrong"))
        assert client.is_closed()


@pytest.mark.parametrize("mechanism", ["GSSAPI", "plain", "", "x" * 30_000])
def test_another_mechanism_gets_the_enabled_ones_and_is_closed(secured: Serving, mechanism: str) -> None:
    with secured.connect() as client:
        shaken = _handshake(client, mechanism)
        assert shaken.error_code is ErrorCode.unsupported_sasl_mechanism
        assert shaken.mechanisms == ("PLAIN", *SCRAM_MECHANISMS)
        assert client.is_closed()


@pytest.mark.parametrize("before", [(), (HANDSHAKE,)])
def test_everything_else_closes_the_connection_until_the_client_is_known(
    secured: Serving, reasons: Callable[[], list[str]], before: tuple[int, ...]
) -> None:
    with secured.connect() as client:
        if before:
            _handshake(client, "PLAIN")
        client.request(METADATA, 4, NO_TOPICS)
        assert client.is_closed()
    assert "Metadata came before the client has authenticated" in reasons()[-1]


def test_tokens_before_the_handshake_and_a_second_handshake_close_the_connection(secured: Serving) -> None:
    with secured.connect() as client:
        client.request(AUTHENTICATE, 2, {"auth_bytes": _plain()})
        assert client.is_closed()
    with secured.connect() as client:
        _handshake(client, "PLAIN")
        client.request(HANDSHAKE, 1, {"mechanism": "PLAIN"})
        assert client.is_closed()


def test_who_is_known_does_not_log_in_again(secured: Serving) -> None:
    with secured.connect() as client:
        _handshake(client, "PLAIN")
        _authenticate(client, _plain())
        assert _handshake(client, "PLAIN").error_code is ErrorCode.illegal_sasl_state
        assert _authenticate(client, _plain()).error_code is ErrorCode.illegal_sasl_state
        assert _works(client)


def test_without_sasl_a_handshake_is_an_illegal_state(served: Serving) -> None:
    assert _handshake(served.client, "PLAIN").error_code is ErrorCode.illegal_sasl_state
    assert _authenticate(served.client, _plain()).error_code is ErrorCode.illegal_sasl_state
    assert _works(served.client)


def test_large_frames_come_after_the_login(secured: Serving, reasons: Callable[[], list[str]]) -> None:
    with secured.connect() as client:
        client.send_raw((MAX_RECEIVE_BYTES + 1).to_bytes(4, "big"))
        assert client.is_closed()
    assert f"the limit is {MAX_RECEIVE_BYTES}" in reasons()[-1]
    with secured.connect() as client:
        _handshake(client, "PLAIN")
        _authenticate(client, _plain())
        client.request(METADATA, 4, {"topics": [{"name": "!" * 200}] * 4000, "allow_auto_topic_creation": False})
        assert client.response(METADATA, 4).cluster_id


def test_users_are_read_anew_and_stay_when_the_file_is_damaged(
    secured: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    assert secured.actors is not None
    path = _users_of(secured.actors.storage)

    def may(user: str) -> bool:
        with secured.connect() as client:
            _handshake(client, "PLAIN")
            return _authenticate(client, _plain(user)).error_code is ErrorCode.none

    assert (may("ann"), may("bob"), may("only 512")) == (True, False, True)
    write(path, {"bob": _HELD})
    assert (may("ann"), may("bob")) == (False, True)
    path.write_text("bob.SCRAM-SHA-256=nonsense")
    assert may("bob")
    assert "users stay as they were" in caplog.text
    assert base64.b64encode(_HELD["SCRAM-SHA-256"].stored_key).decode() not in caplog.text
    path.unlink()
    assert may("bob")


def test_only_the_owner_reads_the_file(tmp_path: Path) -> None:
    write(tmp_path / "users.properties", USERS)
    assert (tmp_path / "users.properties").stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["users.properties"]
