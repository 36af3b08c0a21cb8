"""``muster user`` against a gateway: over Kafka's APIs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from muster.gateway.cli.main import cli
from muster.gateway.security.credentials import write
from muster.gateway.security.scram import SCRAM_MECHANISMS, ScramCredential
from tests.gateway.sasl_login import by_plain, by_scram
from tests.gateway.serving import Serving

SHA_256, SHA_512 = SCRAM_MECHANISMS
ADMIN = "of admin"


def PROPERTIES(storage: Path) -> dict[str, str]:
    held = {SHA_256: ScramCredential.of_password(SHA_256, ADMIN)}
    write(storage / "users.properties", {"admin": held, "reader": held})
    return {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.credentials.file": str(storage / "users.properties"),
        "connection.failed.authentication.delay.ms": "0",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }


@pytest.fixture
def muster(full: Serving, tmp_path: Path) -> Callable[..., Result]:
    """Return a function that runs ``muster user`` as a user of the gateway."""

    def run(*arguments: str, as_user: str = "admin", stdin: str | None = None) -> Result:
        login = tmp_path / "login.properties"
        login.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
            f"sasl.username={as_user}\nsasl.password={ADMIN}\n"
        )
        there = ("--bootstrap-server", f"127.0.0.1:{full.port}", "--command-config", str(login))
        return CliRunner().invoke(cli, ["user", *arguments, *there], input=stdin)

    return run


def may(full: Serving, user: str, password: str, mechanism: str) -> bool:
    with full.connect() as client:
        response: Any = (
            by_plain(client, user, password) if mechanism == "PLAIN" else by_scram(client, mechanism, user, password)
        )
        return not response.error_code


def test_users_are_added_listed_and_removed(full: Serving, muster: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("open sesame\n")
    added = muster("add", "eve = x", "--password-file", str(tmp_path / "secret"), "--iterations", "8192")
    assert (added.exit_code, added.output) == (0, "user eve = x can log in\n")
    for mechanism in ("PLAIN", *SCRAM_MECHANISMS):
        assert may(full, "eve = x", "open sesame", mechanism)
    assert muster("add", "bob", "--mechanism", "scram-sha-512", stdin="one\none\n").exit_code == 0
    listed = json.loads(muster("list", "--json").stdout)
    assert listed == [
        {"user": "bob", "mechanism": SHA_512, "iterations": 4096},
        {"user": "eve = x", "mechanism": SHA_256, "iterations": 8192},
        {"user": "eve = x", "mechanism": SHA_512, "iterations": 8192},
    ]
    assert muster("list").stdout.splitlines()[1].split() == ["bob", SHA_512, "4096"]
    assert muster("add", "bob", "--password-file", "-", stdin="two\nthree\n").exit_code == 0
    assert not may(full, "bob", "one", SHA_512)
    assert may(full, "bob", "two", SHA_256)
    for name in ("bob", "eve = x"):
        assert muster("remove", name).exit_code == 0
        assert not may(full, name, "two", "PLAIN")
    assert "there are no users" in muster("list").stderr


REFUSED = {
    "no such user": (("remove", "zoe"), None, "ZooKeeper has no user zoe"),
    "a user of the file": (("remove", "reader"), None, "one of sasl.credentials.file is removed with --file"),
    "too many iterations": (
        ("add", "x", "--iterations", "16385"),
        "p\np\n",
        "x cannot be changed: Too many iterations",
    ),
    "no password": (("add", "x", "--password-file", "-"), "\n", "the password is empty"),
    "no name": (("add", ""), "p\np\n", "a name has 1 to 255 printable characters"),
    "a name without a node": (("add", "."), "p\np\n", "cannot be stored in ZooKeeper"),
    "two places": (("list", "--file", "users"), None, "--file goes without --bootstrap-server"),
}


@pytest.mark.parametrize(("arguments", "stdin", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(
    muster: Callable[..., Result], arguments: tuple[str, ...], stdin: str | None, says: str
) -> None:
    result = muster(*arguments, stdin=stdin)
    assert result.exit_code
    assert says in result.stderr


def test_rights_are_needed(muster: Callable[..., Result]) -> None:
    listed = muster("list", as_user="reader")
    assert listed.exit_code == 1
    assert "users cannot be listed" in listed.stderr
    added = muster("add", "x", as_user="reader", stdin="p\np\n")
    assert added.exit_code == 1
    assert "user x cannot be changed" in added.stderr


def test_a_file_is_listed_too(tmp_path: Path) -> None:
    file = ["--file", str(tmp_path / "users.properties")]
    one = ["user", "add", "ann", "--password", "p", "--mechanism", "SCRAM-SHA-512", *file]
    assert CliRunner().invoke(cli, one).exit_code == 0
    listed = CliRunner().invoke(cli, ["user", "list", "--json", *file])
    assert json.loads(listed.stdout) == [{"user": "ann", "mechanism": SHA_512, "iterations": 4096}]
