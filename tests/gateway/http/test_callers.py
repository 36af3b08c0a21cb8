"""Who may use which route of the HTTP port, with real users, tokens and ACLs."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import ClientSession
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families as parse

from muster.gateway.cli.main import cli
from muster.gateway.http.callers import CHANGES, RIGHTS, Right
from muster.gateway.http.server import gateway_app, start_http
from muster.gateway.metrics import families
from muster.gateway.metrics.names import OTHER, HiddenNames
from muster.gateway.security.authorization.authorizer import Authorizer
from muster.gateway.security.credentials import write as write_users
from muster.gateway.security.files import PropertyFileError
from muster.gateway.security.scram import SCRAM_MECHANISMS, ScramCredential
from muster.gateway.security.tokens import read, write
from muster.placement.security.acls import (
    CLUSTER_NAME,
    Acl,
    AclOperation,
    AclPattern,
    AclPatternType,
    AclPermission,
    AclResourceType,
)
from muster.placement.view import Topic
from pytest_muster import FaultClient, FaultsForbidden
from tests.gateway.group_client import Fresh, Member, find
from tests.gateway.serving import Serving

PASSWORD = "ann's pass:word,ä"
Caller = dict[str, str]


def PROPERTIES(storage: Path) -> dict[str, str]:
    credential = {one: ScramCredential.of_password(one, PASSWORD) for one in SCRAM_MECHANISMS}
    write_users(storage / "users.properties", {"ann": credential, "bob": credential})
    write(storage / "tokens.properties", {})
    return {
        "listeners": "PLAINTEXT://:0,SASL_PLAINTEXT://:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.credentials.file": str(storage / "users.properties"),
        "http.tokens.file": str(storage / "tokens.properties"),
        "fault.injection.enable": "true",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:root",
    }


@pytest.fixture
def tokens(full: Serving) -> Iterator[Path]:
    assert full.actors is not None
    file = full.actors.storage / "tokens.properties"
    yield file
    write(file, {})


def _token(file: Path, name: str) -> Caller:
    done = CliRunner().invoke(cli, ["token", "add", name, "--file", str(file)])
    assert done.exit_code == 0, done.output
    assert done.output.strip() not in file.read_text()
    return {"Authorization": f"Bearer {done.output.strip()}"}


def _basic(user: str, password: str = PASSWORD) -> Caller:
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def _send(full: Serving, method: str, path: str, caller: Caller, body: Any = None) -> tuple[int, str]:
    url = f"{full.http_url}{path}"

    async def send() -> tuple[int, str]:
        async with ClientSession() as session, session.request(method, url, headers=caller, json=body) as response:
            is_endless = response.content_type == "text/event-stream"
            return response.status, "" if is_endless else await response.text()

    done: tuple[int, str] = full.run(send())
    return done


def _acl(user: str, operation: AclOperation, kind: AclResourceType, name: str) -> Acl:
    return Acl(AclPattern(kind, name, AclPatternType.LITERAL), f"User:{user}", "*", operation, AclPermission.ALLOW)


def _allow(full: Serving, *acls: Acl) -> None:
    full.gateway.authorizer = Authorizer(acls, {"User:root"}, allow_everyone=False)


def _group(full: Serving, topic: Topic, group: str) -> str:
    full.gateway.authorizer = None
    find(full.client, 4, group)
    member = Member(full.connect("reader"), group)
    member.commit((topic, 0, 5))
    return group


def _concrete(path: str) -> str:
    query = "?group=g" if "groups" in path else "?topic=t" if "topics" in path else ""
    return path.replace("{id}", "f-1") + query


def test_each_route_has_a_right(full: Serving) -> None:
    routes = {
        ("GET" if route.method == "HEAD" else route.method, route.resource.canonical)
        for route in gateway_app(full.gateway).router.routes()
        if route.resource is not None
    }
    assert routes == {*RIGHTS}


@pytest.mark.parametrize(("method", "path"), [*RIGHTS])
def test_who_may_use_a_route(full: Serving, tokens: Path, method: str, path: str) -> None:
    """401 without or with wrong credentials, 403 without the right; with it, whatever the route says."""
    right, at = RIGHTS[method, path], _concrete(path)
    _allow(
        full,
        _acl("reader", AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME),
        _acl("reader", AclOperation.DESCRIBE, AclResourceType.GROUP, "g"),
        _acl("reader", AclOperation.READ, AclResourceType.TOPIC, "t"),
        _acl("changer", AclOperation.ALTER, AclResourceType.CLUSTER, CLUSTER_NAME),
    )
    status = {name: _send(full, method, at, _token(tokens, name))[0] for name in ("reader", "changer", "stranger")}
    anonymous, wrong = _send(full, method, at, {})[0], _send(full, method, at, _basic("ann", "wrong"))[0]
    refused = {name for name, code in status.items() if code in (401, 403)}
    match right:
        case Right.NONE:
            found = 503 if path == "/" else 200  # no console serves
            assert (refused, anonymous, wrong) == (set(), found, found)
        case Right.KAFKA:  # changes are off; what describes g refuses as Kafka does
            everyone = {"reader", "changer", "stranger"}
            of_kafka = set() if method == "POST" else everyone - {"reader"}  # without a body, nothing is sent
            assert refused == (everyone if (method, path) in CHANGES else of_kafka)
        case Right.NAMES | Right.ROWS:
            assert (refused, anonymous, wrong) == (set(), 200, 401)
        case Right.GROUP | Right.TOPIC:
            assert (refused, anonymous, wrong) == ({"changer", "stranger"}, 401, 401)
        case Right.READ_CLUSTER:
            assert (refused, anonymous, wrong) == ({"stranger"}, 401, 401)
        case Right.CHANGE_CLUSTER if (method, path) in CHANGES:  # which are off
            assert (refused, anonymous, wrong) == ({"reader", "changer", "stranger"}, 401, 401)
        case Right.CHANGE_CLUSTER:
            assert (refused, anonymous, wrong) == ({"reader", "stranger"}, 401, 401)


def test_whoever_is_known_may_do_everything_without_an_authorizer(full: Serving) -> None:
    full.gateway.authorizer = None
    for method, path in (("GET", "/v1/faults"), ("GET", "/v1/groups/waiting"), ("GET", "/v1/audit")):
        assert _send(full, method, path, {})[0] == 401
        assert _send(full, method, path, _basic("ann"))[0] == 200


@pytest.mark.parametrize("by", ["tokens", "SASL alone"])
def test_a_port_that_is_open_by_name_stays_open_unless_it_has_tokens(
    full: Serving, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    named = {"listeners_unauthenticated_enable": True, **({} if by == "tokens" else {"http_tokens_file": None})}
    monkeypatch.setattr(full.gateway, "started_with", full.gateway.started_with.model_copy(update=named))
    full.gateway.authorizer = None
    app = gateway_app(full.gateway)
    runner, port = full.run(start_http(app, "127.0.0.1", 0))

    async def status() -> int:
        async with ClientSession() as session, session.get(f"http://127.0.0.1:{port}/v1/faults") as response:
            return response.status

    try:
        assert full.run(status()) == (401 if by == "tokens" else 200)
    finally:
        full.run(runner.cleanup())


@pytest.mark.parametrize(
    "header",
    [
        *("", "Basic", "Basic =", "Basic ÿ", "Bearer", "Bearer  ", "Digest x", "Bearer " + "x" * 8000, "Basic YW5u"),
        "Basic " + base64.b64encode(b"ann:").decode(),
        "Basic " + base64.b64encode(b"\xff:\xff").decode(),
        "Basic " + base64.b64encode(b"unknown:" + PASSWORD.encode()).decode(),
    ],
)
def test_bad_credentials_are_refused_and_appear_nowhere(
    full: Serving, tokens: Path, caplog: pytest.LogCaptureFixture, header: str
) -> None:
    _allow(full)
    code, body = _send(full, "GET", "/v1/faults", {"Authorization": header})
    assert code == 401
    secret = header.rpartition(" ")[2]
    assert not secret or secret not in body + caplog.text or secret in "Basic Bearer"


def test_a_token_works_until_it_is_removed(full: Serving, tokens: Path) -> None:
    _allow(full, _acl("prometheus", AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME))
    first, second = _token(tokens, "prometheus"), _token(tokens, "prometheus")
    assert first != second
    for sent in (first, second):
        assert _send(full, "GET", "/v1/faults", sent)[0] == 200
    assert CliRunner().invoke(cli, ["token", "remove", "prometheus", "--file", str(tokens)]).exit_code == 0
    for sent in (first, second):
        assert _send(full, "GET", "/v1/faults", sent)[0] == 401


def test_the_client_of_faults_says_that_a_right_is_missing(full: Serving, tokens: Path) -> None:
    """And does not advise to enable what is enabled."""
    _allow(full)
    for token in (None, "wrong", _token(tokens, "stranger")["Authorization"].removeprefix("Bearer ")):
        with pytest.raises(FaultsForbidden):
            FaultClient(full.http_url, token=token).faults()


def test_lag_has_the_topics_that_the_caller_may_describe(full: Serving, fresh: Fresh) -> None:
    topic, group, nobodys = full.create(fresh("t")), fresh("g"), fresh("g")
    _group(full, topic, group)
    path = f"/v1/groups/lag?group={quote(group)}"
    of_group = _acl("ann", AclOperation.DESCRIBE, AclResourceType.GROUP, group)
    _allow(full, of_group)
    code, body = _send(full, "GET", path, _basic("ann"))
    assert (code, json.loads(body)["partitions"]) == (200, [])
    _allow(full, of_group, _acl("ann", AclOperation.DESCRIBE, AclResourceType.GROUP, nobodys))
    for name in (topic.name, "no-topic"):
        missing = _send(full, "GET", f"/v1/groups/lag?group={nobodys}&topic={name}", _basic("ann"))
        assert missing == (404, json.dumps({"error": f"unknown group {nobodys}"}))
    _allow(full, of_group, _acl("ann", AclOperation.READ, AclResourceType.TOPIC, topic.name))
    assert [row["topic"] for row in json.loads(_send(full, "GET", path, _basic("ann"))[1])["partitions"]] == [
        topic.name
    ]
    code, body = _send(full, "GET", path, _basic("bob"))
    assert code == 403
    assert topic.name not in body


def test_the_lag_of_all_groups_has_those_that_the_caller_may_describe(full: Serving, fresh: Fresh) -> None:
    topic, group, secret = full.create(fresh("t")), fresh("g"), fresh("secret")
    for each in (group, secret):
        _group(full, topic, each)
    _allow(full, _acl("ann", AclOperation.DESCRIBE, AclResourceType.GROUP, group))
    while True:  # it may be a second old
        code, body = _send(full, "GET", "/v1/groups/lag", _basic("ann"))
        assert code == 200
        assert secret not in body
        found = json.loads(body)["groups"]
        if found:
            break
    assert [(row["group"], row["partitions"], row["lag"]) for row in found] == [(group, 0, None)]
    _allow(full, _acl("bob", AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME))
    seen = {row["group"] for row in json.loads(_send(full, "GET", "/v1/groups/lag", _basic("bob"))[1])["groups"]}
    assert seen >= {group, secret}


def test_no_label_of_any_family_can_have_a_name_that_is_not_hidden() -> None:
    """A new label is either of a few known values, or has to be hidden."""
    known = {"action", "actor", "api", "cause", "difference", "error", "evidence", "kind", "listener", "log", "metric"}
    known |= {"offsets_partition", "outcome", "quota", "reason", "result", "state", "transactions_partition", "version"}
    known |= {"partition"}
    all_families = [
        family
        for found in vars(families).values()
        if isinstance(found, tuple)
        for family in found
        if isinstance(family, families.Family)
    ]
    names = {label for family in all_families for label in family.labels} - known
    assert names >= {"group", "topic", "client_id"}
    hide = HiddenNames(lambda _: False, lambda _: False, sees_clients=False, key=None)
    for name in names:
        assert hide(f',{name}="secret"') == f',{name}="{OTHER}"', name


def _metrics(full: Serving, caller: Caller) -> tuple[str, dict[str, list[Any]]]:
    code, text = _send(full, "GET", "/metrics", caller)
    assert code == 200
    return text, {family.name: family.samples for family in parse(text)}


@pytest.mark.parametrize("hashed", [False, True])
def test_metrics_have_no_name_that_the_caller_may_not_describe(
    full: Serving, fresh: Fresh, monkeypatch: pytest.MonkeyPatch, hashed: bool
) -> None:
    config = full.gateway.started_with.model_copy(update={"metrics_hash_names": hashed})
    monkeypatch.setattr(full.gateway, "started_with", config)
    shown, hidden = full.create(fresh("shown")), [full.create(fresh("hidden")) for _ in range(2)]
    groups = [_group(full, topic, fresh(f"{topic.name}-group")) for topic in (shown, *hidden)]
    for topic in (shown, *hidden):
        full.gateway.metrics.produced(topic.name, 3, 100)
    _allow(
        full,
        _acl("ann", AclOperation.DESCRIBE, AclResourceType.GROUP, groups[0]),
        _acl("ann", AclOperation.DESCRIBE, AclResourceType.TOPIC, shown.name),
    )
    full_text, everything = _metrics(full, _token_of_root(full))
    text, some = _metrics(full, _basic("ann"))
    for name in (*groups[1:], *(topic.name for topic in hidden)):
        assert name in full_text
        assert name not in text
    for name in (groups[0], shown.name):
        assert f'"{name}"' in text
    for name, samples in everything.items():
        if name.startswith(("muster_group_", "muster_produce_", "muster_fetch_")) and "seconds" not in name:
            assert sum(each.value for each in samples) == sum(each.value for each in some[name]), name
    others = {each.labels["topic"] for each in some["muster_produce_bytes"]} - {shown.name}
    if hashed:
        assert len(others) >= 2
        assert all(len(name) == 17 and name.startswith("~") for name in others)
        assert {each.labels["topic"] for each in _metrics(full, {})[1]["muster_produce_bytes"]} > others
    else:
        assert others == {"~other"}
        assert {each.labels["topic"] for each in _metrics(full, {})[1]["muster_produce_bytes"]} == others


def _token_of_root(full: Serving) -> Caller:
    assert full.actors is not None
    return _token(full.actors.storage / "tokens.properties", "root")


@pytest.mark.parametrize("content", ["a=b", "a=" + "0" * 63, f"={'0' * 64}", "a=" + "0" * 64 + ","])
def test_a_bad_file_of_tokens_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokens").write_text(content)
    with pytest.raises(PropertyFileError):
        read(tmp_path / "tokens")
