"""DescribeUserScramCredentials and AlterUserScramCredentials, and logins with what they set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.security.credentials import write
from muster.gateway.security.scram import SCRAM_MECHANISMS, ScramCredential, salted_password
from muster.placement.security.entities import Entity, EntityAlteration
from muster.placement.zookeeper.client import ZooKeeperClient
from tests.gateway.sasl_login import by_plain, by_scram, works
from tests.gateway.serving import Client, Serving, serving

DESCRIBE, ALTER = 50, 51
SHA_256, SHA_512 = 1, 2
SALT = b"salt of this test"


def properties(storage: Path) -> dict[str, str]:
    users = {name: {SCRAM_MECHANISMS[0]: ScramCredential.of_password(SCRAM_MECHANISMS[0], "of file")} for name in _FILE}
    write(storage / "users.properties", users)
    return {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.credentials.file": str(storage / "users.properties"),
        "connection.failed.authentication.delay.ms": "0",
    }


_FILE = ("admin", "both")


@pytest.fixture
def served(zk: ZooKeeperClient, tmp_path: Path) -> Iterator[Serving]:
    with serving(zk, tmp_path, properties(tmp_path)) as running:
        yield running


@pytest.fixture
def client(served: Serving) -> Iterator[Client]:
    with served.connect() as connected:
        assert not by_plain(connected, "admin", "of file").error_code
        yield connected


def upsertion(user: str, mechanism: int = SHA_256, password: str = "secret", iterations: int = 4096) -> dict[str, Any]:
    name = SCRAM_MECHANISMS[mechanism - 1] if mechanism in (SHA_256, SHA_512) else SCRAM_MECHANISMS[0]
    return {
        "name": user,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": SALT,
        "salted_password": salted_password(name, password, SALT, max(iterations, 1)),
    }


def deletion(user: str, mechanism: int = SHA_256) -> dict[str, Any]:
    return {"name": user, "mechanism": mechanism}


def alter(
    client: Client, *, deletions: list[dict[str, Any]] | None = None, upsertions: list[dict[str, Any]] | None = None
) -> list[tuple[str, ErrorCode, str | None]]:
    body = {"deletions": deletions or [], "upsertions": upsertions or []}
    results = client.exchange(ALTER, 0, body).results
    return [(result.user, result.error_code, result.error_message) for result in results]


def describe(client: Client, *users: str, every: bool = False) -> list[tuple[str, ErrorCode, list[tuple[int, int]]]]:
    response = client.exchange(DESCRIBE, 0, {"users": None if every else [{"name": user} for user in users]})
    assert response.error_code is ErrorCode.none
    return [
        (result.user, result.error_code, [(info.mechanism, info.iterations) for info in result.credential_infos])
        for result in response.results
    ]


def may(served: Serving, user: str, password: str, mechanism: str = "PLAIN") -> bool:
    with served.connect() as one:
        if mechanism == "PLAIN":
            return not by_plain(one, user, password).error_code
        return not by_scram(one, mechanism, user, password).error_code


def test_a_user_may_log_in_once_the_change_is_answered(served: Serving, client: Client) -> None:
    assert not may(served, "eve", "secret")
    both = [upsertion("eve", SHA_256, "one", 5000), upsertion("eve", SHA_512, "two", 6000)]
    assert alter(client, upsertions=both) == [("eve", ErrorCode.none, None)]
    for mechanism, right, wrong in ((SCRAM_MECHANISMS[0], "one", "two"), (SCRAM_MECHANISMS[1], "two", "one")):
        assert may(served, "eve", right, mechanism)
        assert not may(served, "eve", wrong, mechanism)
    assert may(served, "eve", "one")
    assert may(served, "eve", "two")
    assert describe(client, "eve") == [("eve", ErrorCode.none, [(SHA_256, 5000), (SHA_512, 6000)])]
    assert alter(client, deletions=[deletion("eve", SHA_256)]) == [("eve", ErrorCode.none, None)]
    assert not may(served, "eve", "one")
    assert not may(served, "eve", "one", SCRAM_MECHANISMS[0])
    assert may(served, "eve", "two")


def test_a_user_whose_credential_is_deleted_stays_connected(served: Serving, client: Client) -> None:
    alter(client, upsertions=[upsertion("eve")])
    with served.connect() as connected:
        assert not by_scram(connected, "SCRAM-SHA-256", "eve", "secret").error_code
        alter(client, deletions=[deletion("eve")])
        assert works(connected)
    assert not may(served, "eve", "secret", "SCRAM-SHA-256")


def test_zookeepers_credentials_take_precedence_over_those_of_the_file(served: Serving, client: Client) -> None:
    assert may(served, "both", "of file")
    alter(client, upsertions=[upsertion("both", SHA_512, "new")])
    assert may(served, "both", "new")
    assert not may(served, "both", "of file")
    assert not may(served, "both", "of file", "SCRAM-SHA-256")
    alter(client, deletions=[deletion("both", SHA_512)])
    assert may(served, "both", "of file")


REFUSED: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], ErrorCode, str]] = {
    "no name": ([], [upsertion("")], ErrorCode.unacceptable_credential, "Username must not be empty"),
    "no name to delete": ([deletion("")], [], ErrorCode.unacceptable_credential, "Username must not be empty"),
    "no mechanism": ([], [upsertion("u", 0)], ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism"),
    "another": ([deletion("u", 3)], [], ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism"),
    "few": ([], [upsertion("u", iterations=4095)], ErrorCode.unacceptable_credential, "Too few iterations"),
    "negative": ([], [upsertion("u", iterations=-1)], ErrorCode.unacceptable_credential, "Too few iterations"),
    "many": ([], [upsertion("u", iterations=16385)], ErrorCode.unacceptable_credential, "Too many iterations"),
    "none": (
        [deletion("u")],
        [],
        ErrorCode.resource_not_found,
        "Attempt to delete a user credential that does not exist",
    ),
    "twice": (
        [],
        [upsertion("u"), upsertion("u")],
        ErrorCode.duplicate_resource,
        "A user credential cannot be altered twice in the same request",
    ),
    "both ways": (
        [deletion("u")],
        [upsertion("u")],
        ErrorCode.duplicate_resource,
        "A user credential cannot be altered twice in the same request",
    ),
    "one bad of two": (
        [],
        [upsertion("u"), upsertion("u", SHA_512, iterations=1)],
        ErrorCode.unacceptable_credential,
        "Too few iterations",
    ),
    "no node": ([], [upsertion("..")], ErrorCode.invalid_request, "'..' cannot be stored in ZooKeeper"),
}


@pytest.mark.parametrize(("deletions", "upsertions", "code", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_for_one_user_is_done_for_others(
    client: Client, deletions: list[dict[str, Any]], upsertions: list[dict[str, Any]], code: ErrorCode, text: str
) -> None:
    (user,) = {element["name"] for element in (*deletions, *upsertions)}
    results = alter(client, deletions=deletions, upsertions=[*upsertions, upsertion("other")])
    assert sorted(results) == sorted([(user, code, text), ("other", ErrorCode.none, None)])
    assert [found for found, _, _ in describe(client, every=True)] == ["other"]


def test_iterations_at_the_limits(client: Client) -> None:
    wanted = [upsertion("low", iterations=4096), upsertion("high", iterations=16384)]
    assert {code for _, code, _ in alter(client, upsertions=wanted)} == {ErrorCode.none}


def test_both_mechanisms_of_one_and_a_missing_one_of_another(client: Client) -> None:
    results = alter(
        client, deletions=[deletion("missing")], upsertions=[upsertion("eve", SHA_256), upsertion("eve", SHA_512)]
    )
    assert {user: code for user, code, _ in results} == {
        "eve": ErrorCode.none,
        "missing": ErrorCode.resource_not_found,
    }


def test_describe(served: Serving, client: Client) -> None:
    alter(client, upsertions=[upsertion("b"), upsertion("a, ü", SHA_512, iterations=8192)])
    quota = EntityAlteration(entity=Entity.of_user("quota"), set={"producer_byte_rate": "1"})
    served.run(served.controller.alter_entities([quota]))
    every = [("a, ü", ErrorCode.none, [(SHA_512, 8192)]), ("b", ErrorCode.none, [(SHA_256, 4096)])]
    assert describe(client, every=True) == every
    assert describe(client) == every
    missing, repeated = ErrorCode.resource_not_found, ErrorCode.duplicate_resource
    assert describe(client, "quota", "b", "", "admin", "x", "x") == [
        ("quota", missing, []),
        every[1],
        ("", missing, []),
        ("admin", missing, []),
        ("x", repeated, []),
    ]


def test_quotas_and_credentials_of_a_user_do_not_disturb_each_other(served: Serving, client: Client) -> None:
    alter(client, upsertions=[upsertion("eve")])
    quota = EntityAlteration(entity=Entity.of_user("eve"), set={"producer_byte_rate": "1"})
    served.run(served.controller.alter_entities([quota]))
    assert may(served, "eve", "secret")
    alter(client, deletions=[deletion("eve")])
    assert served.controller.entities.load() == {Entity.of_user("eve"): {"producer_byte_rate": "1"}}


def test_without_a_controller_nothing_is_claimed(served: Serving, client: Client) -> None:
    served.controller.away = True
    assert [code for _, code, _ in alter(client, upsertions=[upsertion("eve")])] == [ErrorCode.request_timed_out]
    served.controller.away = False


def test_an_admin_client_alters_and_describes(served: Serving) -> None:
    admin = AdminClient(
        {
            "bootstrap.servers": served.reachable(),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "admin",
            "sasl.password": "of file",
        }
    )
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    added = UserScramCredentialUpsertion("ann", info, b"open sesame")
    removed = UserScramCredentialDeletion("missing", ScramMechanism.SCRAM_SHA_256)
    futures: Any = admin.alter_user_scram_credentials([added, removed])
    futures["ann"].result(20)
    with pytest.raises(KafkaException) as failed:
        futures["missing"].result(20)
    assert failed.value.args[0].code() == KafkaError.RESOURCE_NOT_FOUND
    found: Any = admin.describe_user_scram_credentials(["ann"])
    (described,) = found["ann"].result(20).scram_credential_infos
    assert (described.mechanism, described.iterations) == (ScramMechanism.SCRAM_SHA_512, 8192)
    assert may(served, "ann", "open sesame", "SCRAM-SHA-512")
