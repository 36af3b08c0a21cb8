"""The autoscaling policy for Serve, called by hand, beside a real gateway, coordinators and logs."""

from __future__ import annotations

import gc
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ray import cloudpickle

from muster.gateway.client.errors import InvalidScaling
from muster.gateway.client.scaling import policy as policy_module
from muster.gateway.client.scaling.policy import LagAutoscalingPolicy
from muster.gateway.client.scaling.rates import PartitionLag
from muster.gateway.http.server import gateway_app, start_http
from muster.gateway.security.authorization.authorizer import Authorizer
from muster.gateway.security.credentials import write as write_users
from muster.gateway.security.scram import SCRAM_MECHANISMS, ScramCredential
from muster.gateway.security.tokens import hash_of, write
from muster.placement.view import Topic
from tests.gateway.client.scaling.serve_context import Deployment
from tests.gateway.group_client import Fresh, Member, find
from tests.gateway.serving import Serving
from tests.log.support import client_batch

USER, PASSWORD, TOKEN = "ann", "ann's pass:word,ä", "a-token-for-tests"
_PRODUCE = 0


def PROPERTIES(storage: Path) -> dict[str, str]:
    credential = {one: ScramCredential.of_password(one, PASSWORD) for one in SCRAM_MECHANISMS}
    write_users(storage / "users.properties", {USER: credential})
    write(storage / "tokens.properties", {"root": (hash_of(TOKEN),)})
    return {
        "listeners": "PLAINTEXT://:0,SASL_PLAINTEXT://:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.credentials.file": str(storage / "users.properties"),
        "http.tokens.file": str(storage / "tokens.properties"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "group.initial.rebalance.delay.ms": "0",
        "super.users": f"User:root;User:{USER}",
    }


@pytest.fixture(autouse=True)
def anybody(full: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everybody see everything, and have no credentials."""
    full.gateway.authorizer = Authorizer((), {"User:ANONYMOUS"}, allow_everyone=False)
    for name in ("TOKEN", "TOKEN_FILE", "USER", "PASSWORD"):
        monkeypatch.delenv(f"MUSTER_HTTP_{name}", raising=False)


@pytest.fixture
def only_users(full: Serving) -> None:
    """Let nobody see anything without a login."""
    full.gateway.authorizer = Authorizer((), {"User:root", f"User:{USER}"}, allow_everyone=False)


def produce(full: Serving, topic: Topic, count: int) -> None:
    """Append so many records to each partition."""
    data = [{"index": index, "records": client_batch(count)} for index in range(topic.partitions)]
    topics = [{"topic_id": topic.topic_id, "partition_data": data}]
    response = full.exchange(_PRODUCE, 13, {"acks": -1, "timeout": 1000, "topic_data": topics})
    assert {each.error_code for each in response.responses[0].partition_responses} == {0}


def quick(full: Serving, group: str, *urls: str, **more: Any) -> LagAutoscalingPolicy:
    """Return a policy with short times."""
    times = {"target_s": 1.0, "poll_s": 0.05, "start_s": 0.5, "idle_s": 1.0, "down_s": 0.5}
    return LagAutoscalingPolicy(group, urls or (full.http_url,), **times | more)


def said(caplog: pytest.LogCaptureFixture, group: str) -> list[str]:
    """Return what was logged about the group."""
    messages = [record.getMessage() for record in caplog.records if record.name == "ray.serve"]
    return [message for message in messages if f"group {group} " in message]


class Readers:
    """Members that read 200 records per second each, from one partition after the other, and commit at once."""

    def __init__(self, full: Serving, group: str, topic: Topic) -> None:
        self._member, self._topic = Member(full.connect("reader"), group), topic
        self._read = [0] * topic.partitions
        self._at_s = time.monotonic()

    def read(self, members: int, end: int) -> None:
        """Read until now, up to that offset."""
        at_s = time.monotonic()
        if at_s - self._at_s < 0.05:
            return
        each = int(200 * (at_s - self._at_s) * members / len(self._read))
        self._read, self._at_s = [min(read + each, end) for read in self._read], at_s
        self._member.commit(*((self._topic, index, read) for index, read in enumerate(self._read)))


def test_from_no_replica_to_as_many_as_there_are_partitions_and_back(full: Serving, fresh: Fresh) -> None:
    topic, group = full.create(fresh("t"), 4), fresh("g")
    find(full.client, 4, group)
    deployment = Deployment(quick(full, group))
    poller = deployment.policy._poller
    deployment.until(lambda _: poller.lag is not None)
    assert poller.lag is not None
    assert (poller.lag.rows, deployment.step()) == ([], 0)  # an unknown group
    produce(full, topic, 1_000)
    readers = Readers(full, group, topic)
    Member(full.connect(), group).commit((topic, 0, 0), (topic, 1, 0), (topic, 2, 0), (topic, 3, 0))
    deployment.until(lambda size: size == 1)
    deployment.until(lambda size: size == 4, lambda: readers.read(deployment.target_num_replicas, 1_000))
    deployment.until(lambda size: size == 0, lambda: readers.read(deployment.target_num_replicas, 1_000))


def test_a_group_that_has_never_read_its_topic(full: Serving, fresh: Fresh) -> None:
    """One replica once there is a record, also if the group has committed in another partition only."""
    topic, nobodys, half = full.create(fresh("t"), 2), fresh("g"), fresh("g")
    find(full.client, 4, nobodys, half)
    Member(full.connect(), half).commit((topic, 0, 0))
    found = [Deployment(quick(full, group, topics=[topic.name])) for group in (nobodys, half)]
    for each in found:
        each.until(lambda _, each=each: each.policy._poller.lag is not None)
        assert each.step() == 0
    produce(full, topic, 3)
    Member(full.connect(), half).commit((topic, 0, 3))
    for each in found:
        each.until(lambda size: size == 1)


def test_the_bounds_are_those_of_serve(full: Serving, fresh: Fresh) -> None:
    deployment = Deployment(quick(full, fresh("g")), capacity_adjusted_min_replicas=2)
    deployment.until(lambda _: deployment.policy._poller.lag is not None)
    deployment.target_num_replicas = 0
    assert deployment.policy(deployment)[0] == 2
    deployment.capacity_adjusted_min_replicas, deployment.capacity_adjusted_max_replicas = 0, 1
    deployment.until(lambda _: deployment.policy(deployment)[0] == 1)


def test_while_muster_is_gone_the_replicas_stay(
    full: Serving, fresh: Fresh, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, group = full.create(fresh("t")), fresh("g")
    find(full.client, 4, group)
    produce(full, topic, 3)
    Member(full.connect(), group).commit((topic, 0, 1))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    monkeypatch.setattr(policy_module, "_STALE_S", 0.2)
    caplog.set_level(logging.WARNING, "ray.serve")
    url = f"http://127.0.0.1:{port}/metrics"
    deployment = Deployment(quick(full, group, url), target_num_replicas=3)
    deployment.until(lambda _: bool(said(caplog, group)))
    poller, polls = deployment.policy._poller, iter(range(30))
    deployment.until(lambda size: size == 3 and next(polls) == 29)
    assert len(said(caplog, group)) == 1
    assert f"the lag of group {group} is unknown" in said(caplog, group)[0]
    assert f"http://127.0.0.1:{port}: [Errno 111] Connection refused" in said(caplog, group)[0]

    runner, _ = full.run(start_http(gateway_app(full.gateway), "127.0.0.1", port, max_connections=8))
    deployment.until(lambda _: poller.lag is not None)
    assert said(caplog, group)[1:] == [f"Muster: the lag of group {group} is known again, from http://127.0.0.1:{port}"]
    Member(full.connect(), group).commit((topic, 0, 3))
    deployment.until(lambda size: size == 0)
    full.run(runner.cleanup())
    deployment.until(lambda _: len(said(caplog, group)) == 3)
    deployment.until(lambda size: size == 2, lambda: setattr(deployment, "target_num_replicas", 2))


def test_any_gateway_will_do(full: Serving, fresh: Fresh, caplog: pytest.LogCaptureFixture) -> None:
    group = fresh("g")
    policy = quick(full, group, "http://127.0.0.1:1", f" {full.http_url}/ ", "http://127.0.0.1:2")
    Deployment(policy, 1).until(lambda size: size == 0)
    assert policy._poller._urls[0] == full.http_url
    assert not said(caplog, group)


def test_a_muster_that_hangs_blocks_nobody(full: Serving, fresh: Fresh) -> None:
    """The listener accepts connections, and nobody reads from them."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        deployment = Deployment(quick(full, fresh("g"), f"http://127.0.0.1:{listener.getsockname()[1]}"), 5)
        begun_s = time.monotonic()
        assert {deployment.step() for _ in range(100)} == {5}
        assert time.monotonic() - begun_s < 1


def test_another_server_is_no_unknown_group(full: Serving, fresh: Fresh, caplog: pytest.LogCaptureFixture) -> None:
    group = fresh("g")
    deployment = Deployment(quick(full, group, f"{full.http_url}/elsewhere"), 4)
    assert deployment.until(lambda _: bool(said(caplog, group))) == 4
    assert "HTTP 404, not from Muster" in said(caplog, group)[0]


@pytest.mark.usefixtures("only_users")
@pytest.mark.parametrize(
    "environment",
    [
        {"TOKEN": TOKEN},
        {"TOKEN_FILE": "token"},
        {"USER": USER, "PASSWORD": PASSWORD},
        {"TOKEN": TOKEN, "USER": USER, "PASSWORD": "wrong"},
    ],
    ids=str,
)
def test_the_login_is_that_of_the_environment(
    full: Serving, fresh: Fresh, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("token").write_text(f"{TOKEN}\n")
    for name, value in environment.items():
        monkeypatch.setenv(f"MUSTER_HTTP_{name}", value)
    Deployment(quick(full, fresh("g")), 1).until(lambda size: size == 0)


@pytest.mark.usefixtures("only_users")
@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({}, "HTTP 401"),
        ({"TOKEN": "a-secret"}, "HTTP 401"),
        ({"TOKEN": "a-secret\r\nX: y"}, "the token in MUSTER_HTTP_TOKEN"),
        ({"TOKEN": "a-secret-ä"}, "the token in MUSTER_HTTP_TOKEN"),
        ({"TOKEN_FILE": "/nowhere/token"}, "No such file or directory: '/nowhere/token'"),
        ({"USER": USER, "PASSWORD": "a-secret"}, "HTTP 401"),
    ],
    ids=str,
)
def test_a_refused_login_is_logged_once_without_the_secret(
    full: Serving,
    fresh: Fresh,
    environment: dict[str, str],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(f"MUSTER_HTTP_{name}", value)
    group = fresh("g")
    deployment = Deployment(quick(full, group), 3)
    assert deployment.until(lambda _: bool(said(caplog, group))) == 3
    assert reason in said(caplog, group)[0]
    assert "a-secret" not in caplog.text
    assert ("see MUSTER_HTTP_TOKEN in the environment" in said(caplog, group)[0]) is reason.startswith("HTTP")


def test_a_response_that_makes_no_sense_changes_nothing(
    full: Serving, fresh: Fresh, caplog: pytest.LogCaptureFixture
) -> None:
    group = fresh("g")
    deployment = Deployment(quick(full, group, poll_s=1_000.0), 3)
    poller = deployment.policy._poller
    deployment.until(lambda _: poller.lag is not None)
    assert poller.lag is not None
    nonsense: Any = [PartitionLag("t", 0, 1, None, 0.0)._replace(end="7")]  # type: ignore[arg-type]
    deployment.target_num_replicas, poller.lag = 3, poller.lag._replace(rows=nonsense)
    assert deployment.step() == 3
    assert "makes no sense" in said(caplog, group)[0]


def test_the_thread_ends_with_the_policy(full: Serving, fresh: Fresh) -> None:
    """Serve makes a new one whenever the deployment's configuration changes."""
    before = {*threading.enumerate()}
    policy = quick(full, fresh("g"))
    Deployment(policy).step()
    (thread,) = {*threading.enumerate()} - before
    assert thread.daemon
    del policy
    gc.collect()
    thread.join(30)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"http": []}, "the URL of a gateway"),
        ({"http": ["127.0.0.1:8080"]}, "'127.0.0.1:8080' is no URL"),
        ({"group": ""}, "a group"),
        ({"poll_s": 0}, "poll_s"),
        ({"target_s": 0}, "target_s"),
        ({"idle_s": -1}, "idle_s"),
        ({"start_s": "20"}, "'str'"),
        ({"http": [7]}, "'int'"),
        ({"http": ["http://[::1"]}, "IPv6"),
    ],
    ids=str,
)
def test_what_cannot_be_changes_nothing_and_is_logged(
    arguments: dict[str, Any], named: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception in the constructor would keep Serve's controller from updating any application."""
    policy = LagAutoscalingPolicy(**{"group": "g", "http": ["http://h:1"]} | arguments)
    assert Deployment(policy, 5).step() == 5
    assert named in caplog.text
    with pytest.raises(InvalidScaling, match=named):
        policy.check()


def test_one_url_needs_no_list() -> None:
    one: Any = "http://h:1"
    policy = LagAutoscalingPolicy("g", one)
    policy.check()
    assert policy._poller._urls == [one]


@pytest.fixture
def pickled() -> Iterator[bytes]:
    """Yield the class as ``AutoscalingPolicy.serialize_policy`` of Ray Serve pickles it."""
    cloudpickle.register_pickle_by_value(policy_module)
    yield cloudpickle.dumps(LagAutoscalingPolicy)
    cloudpickle.unregister_pickle_by_value(policy_module)


_LOAD = """
import pickle, sys
from types import SimpleNamespace
found = pickle.loads(bytes.fromhex(sys.argv[1]))
assert found.__module__ not in sys.modules, "pickled by name"
policy = found("nobodys", [sys.argv[2]], poll_s=0.05)
context = SimpleNamespace(target_num_replicas=3, capacity_adjusted_min_replicas=0, capacity_adjusted_max_replicas=8)
while policy._poller.lag is None:
    assert policy(context) == (3, {})
print(*sys.modules)
"""


def test_what_serve_pickles_works_in_another_process_and_imports_little(full: Serving, pickled: bytes) -> None:
    """``ray.cloudpickle`` itself is imported there, which Serve's controller has anyway, and of Muster the sizing."""
    done = subprocess.run([sys.executable, "-c", _LOAD, pickled.hex(), full.http_url], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    modules = {*done.stdout.split()}
    assert {name for name in modules if name.split(".")[0] == "muster"} == {
        "muster",
        "muster.gateway",
        "muster.gateway.client",
        "muster.gateway.client.errors",
        "muster.gateway.client.scaling",
        "muster.gateway.client.scaling.rates",
        "muster.gateway.client.scaling.sizing",
    }
    assert not modules & {"ray.data", "ray.serve", "pyarrow", "numpy", "pandas", "confluent_kafka", "pydantic"}
    assert len(pickled) < 30_000


def test_the_public_name_imports_as_little() -> None:
    code = "import sys, muster.serve; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = {*done.stdout.split()}
    assert not modules & {"ray", "pyarrow", "numpy", "confluent_kafka", "pydantic"}
    assert not {name for name in modules if name.startswith("muster.actors")}
