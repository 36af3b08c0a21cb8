"""OAUTHBEARER: the same tokens of one identity provider, and the same responses of both servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.zookeeper.client import connect
from tests.certificates import Authority
from tests.conformance.artifacts import FAST_START, Kafka
from tests.conformance.authorization import broker as plain
from tests.conformance.kafka import KafkaBroker
from tests.gateway.sasl_login import authenticate, handshake
from tests.gateway.security import test_oauth as oauth
from tests.gateway.security.identity_provider import keys_by_https
from tests.gateway.serving import Client, serving

KEYS = oauth.KEYS[:3]
TOKENS = {
    "sasl.oauthbearer.expected.audience": f"other,{oauth.AUDIENCE}",
    "sasl.oauthbearer.expected.issuer": oauth.ISSUER,
    "sasl.oauthbearer.clock.skew.seconds": str(oauth.SKEW_S),
    "sasl.oauthbearer.sub.claim.name": "azp",
}
LISTENER = "listener.name.plaintext.oauthbearer"
_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.fixture(scope="module")
def muster(provider: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the bootstrap address of a gateway without Ray."""
    url, authorities = provider
    properties = {
        **TOKENS,
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": url,
        "sasl.oauthbearer.jwks.endpoint.ssl.truststore.location": str(authorities),
    }
    with EmbeddedZooKeeper.start(tmp_path_factory.mktemp("zookeeper")) as zookeeper:
        zk = connect(zookeeper.hosts, timeout_s=10)
        with serving(zk, tmp_path_factory.mktemp("storage"), properties) as served:
            yield served.reachable()
        zk.shut()


@pytest.fixture(scope="module")
def broker(provider: tuple[str, Path], release: Kafka) -> Iterator[str]:
    url, authorities = provider
    properties = {
        **plain.PROPERTIES,
        **TOKENS,
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": url,
        f"{LISTENER}.sasl.server.callback.handler.class": _HANDLER,
        f"{LISTENER}.sasl.jaas.config": (
            f'{_MODULE} required ssl.truststore.type="PEM" ssl.truststore.location="{authorities}" '
            'unsecuredLoginStringClaim_sub="unused";'
        ),
    }
    options = (*FAST_START, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}")
    with KafkaBroker(properties, release=release, login=plain.LOGIN, options=options) as running:
        yield running.bootstrap_servers


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Yield the URL of its keys, and the file with the authority of its certificate."""
    folder, authority = tmp_path_factory.mktemp("provider"), Authority()
    with keys_by_https(KEYS, authority.issue("CN=idp"), folder) as url:
        yield url, authority.write(folder / "ca.pem")


class Outcome(NamedTuple):
    """Outcome of a login."""

    status: bytes
    """Status of the first token."""
    error: str
    message: str | None
    is_open: bool


CLOSED = Outcome(b"", "", "closed without a response", False)


def log_in(bootstrap: str, message: bytes) -> Outcome:
    host, _, port = bootstrap.rpartition(":")
    with Client(int(port), host=host) as client:
        assert handshake(client, "OAUTHBEARER").error_code is ErrorCode.none
        try:
            first = last = authenticate(client, message)
        except ConnectionError:
            return CLOSED
        if first.auth_bytes:
            last = authenticate(client, b"\1")
        is_open = last.error_code is ErrorCode.none
        return Outcome(
            first.auth_bytes, last.error_code.name, last.error_message or None, is_open or not client.is_closed()
        )


MESSAGES = {
    **{f"accepted: {name}": message for name, message in oauth.ACCEPTED.items()},
    **{f"refused: {name}": lambda of=bearer: oauth.first(of()) for name, bearer in oauth.REFUSED.items()},
    **{f"malformed: {name}": lambda of=message: of for name, message in oauth.MALFORMED.items()},
    "another authorization id": lambda: oauth.first(oauth.token(), "n,a=root,"),
}


STRICTER = frozenset(
    (
        "refused: it is of the future",  # Kafka does not look at the time of issue
        "refused: a user that is too long",
        "refused: another algorithm of the key",  # RFC 7517: a key with "alg" is for that algorithm
    )
)
"""Kafka lets these in."""
OTHERWISE = frozenset(("malformed: two tokens", "malformed: another scheme"))
"""Both refuse these, but Kafka takes the last token, and closes the connection without a response."""


def test_all_logins_end_alike(muster: str, broker: str) -> None:
    outcomes = {}
    for name, message in MESSAGES.items():
        sent = message()
        outcomes[name] = (log_in(muster, sent), log_in(broker, sent))
    different = {name: pair for name, pair in outcomes.items() if pair[0] != pair[1]}
    assert different.keys() == STRICTER | OTHERWISE, different
    assert {different[name][0].is_open for name in different} == {False}
    assert {different[name][1].is_open for name in OTHERWISE} == {False}


@pytest.mark.parametrize("bearer", ["good", "expired"])
def test_librdkafka(muster: str, broker: str, bearer: str) -> None:
    now = oauth.claims()["iat"]
    token = oauth.token() if bearer == "good" else oauth.token(exp=now - 600)
    assert reaches(muster, token) == reaches(broker, token) == (bearer == "good")


def reaches(bootstrap: str, token: str) -> bool:
    failed: list[Any] = []
    options: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (token, oauth.claims()["exp"]),
        "error_cb": failed.append,
    }
    admin = AdminClient(options)
    try:
        return bool(admin.list_topics(timeout=5).brokers)
    except KafkaException:
        admin.poll(0)
        assert "_AUTHENTICATION" in {error.name() for error in failed}
        return False
