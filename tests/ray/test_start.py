"""A Muster on a Ray that runs: it outlives the driver that started it, and any other one finds and stops it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import muster
from muster.gateway.client.run_state import holder, read_state
from tests.muster_process import Muster, eventually
from tests.ray.programs import ROOT, keepers_of, until_gone
from tests.ray.ray_head import RayHead

_RUN_S = 240
pytestmark = [pytest.mark.ring(name="ray"), pytest.mark.timeout(2 * _RUN_S)]

OPTIONS: dict[str, Any] = {
    "properties": {"listeners": "PLAINTEXT://:0", "metrics.port": "0", "offsets.topic.num.partitions": "1"},
    "gateways": 1,
    "insecure": True,
}
_WORDS = "import os, sys, json, muster\nstorage, address, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])\n"

_ACTORS = "import ray\nray.init(address, log_to_driver=False)\nprint(ray.util.list_named_actors(all_namespaces=True))"


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayHead]:
    with RayHead(tmp_path_factory.mktemp("head")) as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the storage directory."""
    return tmp_path_factory.mktemp("shared") / "storage"


@pytest.fixture(autouse=True)
def _access(head: RayHead, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let this process, which is connected to no Ray, have the token; its working directory knows of no Muster."""
    for name, value in head.access.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def kafka(head: RayHead, shared: Path) -> muster.Cluster:
    """Return the Muster on that Ray, which the first test that needs it has started."""
    return muster.start(shared, address=head.address, **OPTIONS)


def driver(source: str, head: RayHead, storage: Path, **environment: str) -> list[str]:
    """Return the lines that a driver prints, with what tests know in ``storage``, ``address`` and ``options``."""
    done = subprocess.run(
        [sys.executable, "-c", _WORDS + source, str(storage), head.address, json.dumps(OPTIONS)],
        capture_output=True,
        text=True,
        timeout=_RUN_S,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_no_ray() -> None:
    with pytest.raises(muster.NotRunning, match="no Ray is known"):
        muster.start("storage")
    with pytest.raises(muster.NoResponse, match=r"Ray at 127\.0\.0\.1:1 does not respond .*RAY_AUTH_MODE=token"):
        muster.start("storage", address="127.0.0.1:1")


def test_what_muster_up_refuses_is_refused(head: RayHead, tmp_path: Path) -> None:
    options = {**OPTIONS, "insecure": False}
    with pytest.raises(muster.NotStarted, match=r"(?s)exit code 1.*without authentication.*--insecure"):
        muster.start(tmp_path / "storage", address=head.address, **options)
    with pytest.raises(muster.NotRunning, match="no Muster on this Ray was started by"):
        muster.Cluster("127.0.0.1:1", ray_address=head.address).stop()


def test_it_outlives_its_driver(head: RayHead, shared: Path) -> None:
    """The driver's own connection stays, in its own namespace."""
    source = """
import ray
ray.init(address, namespace="mine", log_to_driver=False)
with_it = muster.start(storage, **options)
assert ray.is_initialized() and ray.get_runtime_context().namespace == "mine"
print(with_it.topic("flights", partitions=2))
print(with_it.bootstrap)
"""
    *_, topic, bootstrap = driver(source, head, shared)
    assert topic == "flights"
    found = muster.connect(bootstrap)
    with pytest.raises(muster.TopicDiffers):
        found.topic("flights", partitions=3)
    state = read_state(shared)
    assert state is not None
    assert state.ray_token_path == str(head.token)


def test_a_second_start_returns_the_same(head: RayHead, shared: Path, kafka: muster.Cluster) -> None:
    """From a process that is connected to no Ray, and stays so; RAY_ADDRESS says which."""
    source = """
before = dict(os.environ)
first, second = muster.start(storage, address=address), muster.start(storage)
assert first == second
assert "ray" not in sys.modules and dict(os.environ) == before
try:
    muster.start(storage + "-other")
except muster.AlreadyRunning as error:
    print(error)
print(second.bootstrap)
"""
    refused, bootstrap = driver(source, head, shared, RAY_ADDRESS=head.address)
    assert bootstrap == kafka.bootstrap
    assert refused.startswith(f"a Muster on storage {shared} runs on this Ray; stop it first")


def test_tasks_find_it(head: RayHead, shared: Path, kafka: muster.Cluster) -> None:
    source = """
import ray
ray.init(address, log_to_driver=False)

@ray.remote(num_cpus=0)
def task(cluster):
    found = muster.connect()
    assert found == cluster
    with cluster:
        pass
    return found.topic("of-a-task")

found = muster.connect()
print(ray.get(task.remote(found)), found.bootstrap, *found.http)
"""
    assert driver(source, head, shared) == [f"of-a-task {kafka.bootstrap} {kafka.http[0]}"]


def test_ray_shows_the_names_of_the_actors(head: RayHead, shared: Path, kafka: muster.Cluster) -> None:
    source = f"""
from ray.util.state import list_actors
os.environ["RAY_ADDRESS"] = address
for actor in list_actors(address="http://127.0.0.1:{head.dashboard}", detail=True, filters=[("state", "=", "ALIVE")]):
    print(actor.name, actor.repr_name)
"""
    names = dict(line.split() for line in driver(source, head, shared))
    assert {"controller", "gateway-1", "log-0", "log-1", "reconciler", "standby-1", "up"} <= names.keys()
    assert names == {name: name for name in names}


def test_a_job_finds_it(head: RayHead, kafka: muster.Cluster, tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    lines = [
        "import muster, ray",
        "ray.init()",
        "kafka = muster.connect()",
        "print(kafka.topic('of-a-job'), kafka.bootstrap)",
    ]
    job.write_text("\n".join(lines))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ray.scripts.scripts", "job", "submit"),
            *("--address", f"http://127.0.0.1:{head.dashboard}", "--", sys.executable, str(job)),
        ],
        capture_output=True,
        text=True,
        timeout=_RUN_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"of-a-job {kafka.bootstrap}" in done.stdout, done.stdout


def test_ray_client(head: RayHead, shared: Path, kafka: muster.Cluster) -> None:
    """With a connection of the driver, and without one."""
    source = f"""
import ray
client = "ray://127.0.0.1:{head.client}"
assert muster.start(storage, address=client).bootstrap == muster.start(storage, address=address).bootstrap
assert not ray.is_initialized()
while not ray.is_initialized():
    try:
        ray.init(client)
    except ConnectionAbortedError as error:  # a busy head gives up the server that it starts for us
        print(error, file=sys.stderr)
        ray.shutdown()
print(muster.start(storage) == muster.connect(), muster.connect().topic("of-a-client"), ray.is_initialized())
import muster.data
for use in (
    lambda: muster.data.read("of-a-client", group="g"),
    lambda: muster.data.batch("of-a-client", group="g"),
    lambda: muster.data.batches("of-a-client", group="g"),
    lambda: muster.data.write(None, "of-a-client"),
):
    try:
        use()
    except muster.RayClientUnsupported as error:
        print("ray job submit" in str(error))
"""
    assert driver(source, head, shared) == ["True of-a-client True", *["True"] * 4]


def test_an_actor_that_is_killed_starts_it_anew(head: RayHead, shared: Path, kafka: muster.Cluster) -> None:
    """``muster up`` stops in order at once, since its keeper sees that; then Ray restarts the actor."""
    kafka.topic("kept", partitions=4)
    (actor,) = (each for each in psutil.process_iter(["cmdline"]) if _runs_up(each, head))
    (keeper,) = keepers_of(actor.pid)
    pid = holder(shared)
    assert pid is not None
    actor.kill()
    until_gone(pid, keeper)
    again = muster.start(shared, address=head.address)
    assert again.topic("kept", partitions=4) == "kept"
    assert holder(shared) not in (None, pid)


def _runs_up(process: psutil.Process, head: RayHead) -> bool:
    """Return whether it is the process of the actor ``up`` on that Ray."""
    title = str((process.info["cmdline"] or [""])[0])
    return title.startswith("ray::Up") and process.environ().get("RAY_AUTH_TOKEN_PATH") == str(head.token)


def test_any_driver_stops_it(head: RayHead, shared: Path, kafka: muster.Cluster) -> None:
    pid = holder(shared)
    assert pid is not None
    source = """
import ray
ray.init(address, namespace="others", log_to_driver=False)
muster.connect().stop()
print(*(actor for actor in ray.util.list_named_actors(all_namespaces=True)), "no actors")
try:
    muster.connect()
except muster.NotRunning as error:
    print(error)
"""
    actors, refused = driver(source, head, shared)
    assert actors == "no actors"
    assert refused.startswith("no Muster was found: not on this process's Ray")
    assert holder(shared) is None
    assert read_state(shared) is None
    kafka.stop()  # it has ended, as wanted


def test_no_time_to_stop(head: RayHead, shared: Path, kafka: muster.Cluster) -> None:
    """``muster up`` is killed, and would leave its actors on the Ray."""
    kafka.stop(0)
    assert driver(_ACTORS, head, shared) == ["[]"]
    assert holder(shared) is None


def test_with_and_muster_down(head: RayHead, shared: Path) -> None:
    source = """
with muster.start(storage, address=address, **options) as kafka:
    print(kafka.topic("kept", partitions=4))
"""
    assert driver(source, head, shared) == ["kept"]
    assert holder(shared) is None
    muster.start(shared, address=head.address, **OPTIONS)
    down = [sys.executable, "-m", "muster.gateway.cli.main", "down", "--storage", str(shared)]
    subprocess.run(down, check=True, timeout=_RUN_S, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert eventually(lambda: driver(_ACTORS, head, shared), lambda actors: actors == ["[]"], "the actor has ended")


def test_one_that_muster_up_started(head: RayHead, tmp_path: Path) -> None:
    properties = dict(OPTIONS["properties"])
    arguments = ["--address", head.address, "--insecure", "--gateways", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with Muster(tmp_path / "storage", arguments, properties, environment) as running:
        found = muster.start(tmp_path / "storage", address=head.address)
        assert found.bootstrap == running.bootstrap
        assert muster.connect(tmp_path / "storage") == found
        with found:
            pass
        with pytest.raises(muster.NotRunning, match=r"started by muster\.start; muster down"):
            found.stop()
        with pytest.raises(muster.AlreadyRunning, match=f"muster down --storage {tmp_path}/storage"):
            muster.start(tmp_path / "other", address=head.address)
        assert found.topic("still-served") == "still-served"


def test_a_token_in_a_variable_is_put_into_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands find it there; the variable of the head's processes is no file."""
    from muster.gateway.client.up_actor import Up

    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH")
    monkeypatch.setenv("RAY_JOB_ID", "1")
    monkeypatch.setenv("RAY_USE_TLS", "1")
    up = Up.__new__(Up)
    up._storage = tmp_path / "storage"
    environment = up._environment()
    file = tmp_path / "storage/run/ray-token"
    assert {name: value for name, value in environment.items() if name.startswith("RAY_")} == {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(file),
        "RAY_USE_TLS": "1",
    }
    assert file.read_text() == "secret"
    assert file.stat().st_mode & 0o777 == 0o600
