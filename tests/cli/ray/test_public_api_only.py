"""Muster on Ray as it is, by Ray's public API only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest
from confluent_kafka import Consumer, Producer

from muster.actors.runtime.ray.public_api import PUBLIC_API_ONLY
from muster.gateway.cli.ray.small_ray import RAY_SETTINGS
from tests.muster_process import STOP_S, Muster

pytestmark = pytest.mark.ring(name="restarts")

ROOM = f"{os.sep}gateway{os.sep}cli{os.sep}ray{os.sep}"
TOPIC = GROUP = "planes"


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    environment = {**os.environ, PUBLIC_API_ONLY: "1"}
    storage = tmp_path_factory.mktemp("plain") / "storage"
    with Muster(storage, ["--gateways", "1"], {"offsets.topic.num.partitions": "1"}, environment) as started:
        yield started


def family(muster: Muster) -> list[psutil.Process]:
    assert muster.process is not None
    return list(psutil.Process(muster.process.pid).children(recursive=True))


def produce(muster: Muster, *values: str) -> None:
    producer = Producer({"bootstrap.servers": muster.bootstrap})
    for value in values:
        producer.produce(TOPIC, value.encode())
    assert producer.flush(STOP_S) == 0


def consume(muster: Muster, count: int) -> list[str]:
    """Read on from the group's offsets, and commit."""
    settings = {"bootstrap.servers": muster.bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    try:
        consumer.subscribe([TOPIC])
        values: list[str] = []
        while len(values) < count:
            messages = consumer.consume(count - len(values), timeout=STOP_S)
            assert messages, values
            values += [(message.value() or b"").decode() for message in messages if not message.error()]
        consumer.commit(asynchronous=False)
        return values
    finally:
        consumer.close()


def test_nothing_in_ray_is_changed(muster: Muster) -> None:
    """Also where Ray's own workers are: no program of Muster's runs in place of Ray's, and no setting is another."""
    assert muster.process is not None
    commands = [process.cmdline() for process in family(muster)]
    ours = [line for line in commands if any(ROOM in word and "watchdog" not in word for word in line)]
    assert not ours
    settings = {f"RAY_{name}" for name in RAY_SETTINGS}
    for actor in muster.actors().values():
        process = psutil.Process(actor["pid"])
        assert not settings & process.environ().keys(), actor["name"]
        assert process.nice() > psutil.Process(muster.process.pid).nice(), "Ray's own niceness"


def test_a_group_continues_when_its_actors_are_killed(muster: Muster) -> None:
    produce(muster, "a", "b")
    assert consume(muster, 2) == ["a", "b"]
    for name in ("offsets-0", "log-0", "log-1", "gateway-1", "controller"):
        muster.until_back(name, muster.kill_actor(name))
    produce(muster, "c")
    assert consume(muster, 1) == ["c"]


def test_commands_find_it_by_its_ray(muster: Muster) -> None:
    state = json.loads((muster.storage / "run/cluster.json").read_text())
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": state["ray_token_path"]}
    command = [sys.executable, "-m", "muster.gateway.cli.main", "status", "--json", "--address", state["ray_address"]]
    done = subprocess.run(command, env={**(muster.environment or {}), **token}, stdout=subprocess.PIPE, check=True)
    assert {actor["name"] for actor in json.loads(done.stdout)["actors"]} == muster.actors().keys()


def test_muster_down_ends_all(muster: Muster) -> None:
    started = family(muster)
    muster.cli("down")
    assert muster.process is not None
    assert muster.process.wait(STOP_S) == 0
    assert not psutil.wait_procs(started, timeout=STOP_S)[1]
    assert sorted(path.name for path in (muster.storage / "run").iterdir() if path.is_file()) == ["lock", "reserve"]
