"""``muster acls`` against a gateway, by confluent-kafka's admin client."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.gateway.cli import main
from muster.placement.security.acls import AclFilter
from muster.placement.zookeeper.client import connect
from tests.gateway.authorization.acls import acl
from tests.gateway.authorization.test_acl_apis import ROOT
from tests.gateway.serving import Serving, serving

ANN = ("--allow-principal", "User:ann")
Row = tuple[str, str, str, str, str, str, str]


@pytest.fixture(scope="module")
def running(zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    root = connect(zookeeper.hosts, timeout_s=10)
    root.create("/acls-command")
    root.shut()
    client = connect(f"{zookeeper.hosts}/acls-command", timeout_s=10)
    with serving(client, tmp_path_factory.mktemp("storage"), ROOT) as served:
        served.reachable()
        yield served
    client.shut()


@pytest.fixture(autouse=True)
def _no_acls(running: Serving) -> None:
    running.run(running.controller.delete_acls([AclFilter()]))


def run(served: Serving, *arguments: str, code: int = 0) -> tuple[str, str]:
    """stdout and stderr."""
    where = ("--bootstrap-server", f"127.0.0.1:{served.port}")
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        ended = main._run(["acls", *arguments, *where])
    assert ended == code, err.getvalue()
    return out.getvalue(), err.getvalue()


def rows(served: Serving, *arguments: str) -> set[Row]:
    found = json.loads(run(served, "list", *arguments, "--json")[0])
    return {tuple(row.values()) for row in found}


def test_acls_are_added_listed_and_removed(running: Serving) -> None:
    options = (*ANN, "--allow-host", "10.0.0.1", "--operation", "Read", "--operation", "describe", "--topic", "é t")
    assert run(running, "add", *options) == ("", "added 2 ACLs\n")
    run(running, "add", "--deny-principal", "User:bob", "--cluster")
    read = ("Topic", "é t", "Literal", "User:ann", "Allow", "Read", "10.0.0.1")
    describe = (*read[:5], "Describe", "10.0.0.1")
    deny = ("Cluster", "kafka-cluster", "Literal", "User:bob", "Deny", "All", "*")
    assert rows(running) == {read, describe, deny}
    assert rows(running, "--cluster") == {deny}
    assert rows(running, "--principal", "User:bob") == {deny}
    assert "User:ann" in run(running, "list")[0]
    assert run(running, "remove", *options, "--yes") == ("", "removed 2 ACLs\n")
    assert rows(running) == {deny}
    assert run(running, "list", "--topic", "é t")[1] == "there are no such ACLs\n"
    run(running, "remove", "--cluster", "--yes")
    assert run(running, "list")[1] == "there are no ACLs\n"


def test_prefixes_and_what_applies_to_a_resource(running: Serving) -> None:
    run(running, "add", *ANN, "--topic", "pay-", "--resource-pattern-type", "prefixed", "--operation", "Write")
    run(running, "add", *ANN, "--topic", "*", "--operation", "Read")
    run(running, "add", *ANN, "--topic", "other", "--operation", "Read")
    found = rows(running, "--topic", "pay-x", "--resource-pattern-type", "match")
    assert {row[1:3] for row in found} == {("pay-", "Prefixed"), ("*", "Literal")}
    assert {row[1] for row in rows(running, "--topic", "pay-")} == {"pay-"}
    run(running, "remove", "--topic", "pay-x", "--resource-pattern-type", "match", "--yes")
    assert {row[1] for row in rows(running)} == {"other"}


def test_what_producers_and_consumers_need(running: Serving) -> None:
    run(running, "add", *ANN, "--producer", "--topic", "t", "--transactional-id", "x", "--idempotent")
    run(running, "add", *ANN, "--consumer", "--topic", "t", "--group", "g")
    assert {(row[0], row[1], row[5]) for row in rows(running)} == {
        *(("Topic", "t", operation) for operation in ("Read", "Write", "Describe", "Create")),
        ("TransactionalId", "x", "Write"),
        ("TransactionalId", "x", "Describe"),
        ("Cluster", "kafka-cluster", "IdempotentWrite"),
        ("Group", "g", "Read"),
    }
    run(running, "remove", *ANN, "--producer", "--topic", "t", "--yes")
    assert ("Topic", "t", "Write") not in {(row[0], row[1], row[5]) for row in rows(running)}


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("add", "--topic", "t"), 2, "Name a principal"),
        (("add", *ANN), 2, "Name a resource"),
        (("add", "--allow-principal", "ann", "--topic", "t"), 1, "write TYPE:NAME, for example User:ann"),
        (("add", *ANN, "--group", "g", "--operation", "Write"), 1, "Write means nothing for a Group"),
        (("add", *ANN, "--topic", "t", "--deny-host", "10.0.0.1"), 2, "--deny-host needs --deny-principal"),
        (("add", *ANN, "--consumer", "--topic", "t"), 2, "--consumer needs --topic and --group"),
        (("add", *ANN, "--producer", "--topic", "t", "--operation", "Read"), 2, "choose the operations"),
        (("add", "--deny-principal", "User:a", "--producer", "--topic", "t"), 2, "need --allow-principal"),
        (("add", *ANN, "--group", "a/b"), 1, "ZooKeeper has no node of this name"),
        (("remove",), 2, "Name a resource"),
        (("remove", "--topic", "t", "--operation", "Read"), 2, "need --allow-principal"),
    ],
)
def test_refusals(running: Serving, arguments: tuple[str, ...], code: int, says: str) -> None:
    assert says in run(running, *arguments, code=code)[1]
    assert rows(running) == set()


def test_removal_shows_what_and_waits_for_a_yes(running: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    run(running, "add", *ANN, "--topic", "t")
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert "Allow User:ann from *: All on Topic t (Literal)" in run(running, "remove", "--topic", "t", code=130)[1]
    assert len(rows(running)) == 1
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert "removed 1 ACL" in run(running, "remove", "--topic", "t")[1]


def test_types_that_librdkafka_does_not_know(running: Serving) -> None:
    """They do not make the list fail."""
    running.run(running.controller.create_acls([acl("ALLOW CREATE_TOKENS USER User:ann"), acl("ALLOW READ TOPIC t")]))
    assert {row[1] for row in rows(running)} == {"t"}


def test_a_cluster_without_authorizer(served: Serving, tmp_path: Path) -> None:
    served.reachable()
    assert "authorizer.class.name is not set" in run(served, "add", *ANN, "--topic", "t", code=1)[1]
