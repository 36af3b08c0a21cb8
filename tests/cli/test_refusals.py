"""Refusals of ``muster``: one line with the remedy, exit code not 0, nothing started."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from muster.actors.config import MusterConfig
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.lifecycle import start
from muster.gateway.cli.output import LoggedSteps
from muster.gateway.cli.storage import fit
from muster.gateway.cli.storage.directory import locked
from tests.cli.conftest import Muster, one_line


def test_an_unknown_property(muster: Muster, tmp_path: Path) -> None:
    assert "unknown property num.partitons (did you mean num.partitions?)" in one_line(
        muster("up", "--set", "num.partitons=3")
    )
    assert not (tmp_path / "muster-data").exists()


def test_messages_from_a_closed_stdin(tmp_path: Path) -> None:
    command = ["-m", "muster.gateway.cli.main", "topics", "produce", "greetings", "--bootstrap-server", "127.0.0.1:1"]
    closing = ["sh", "-c", 'exec "$0" "$@" <&-', sys.executable, *command]
    done = subprocess.run(closing, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert one_line(done) == "muster: stdin is closed; messages are its lines"


def test_a_flag_with_a_bad_value_is_named_as_property(muster: Muster) -> None:
    assert "gateway.count=0 must be at least 1" in one_line(muster("up", "--gateways", "0"))


def test_a_storage_path_that_cannot_be_made(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    error = one_line(muster("up", "--storage", "file/storage"))
    assert "file/storage cannot be written" in error
    assert "--storage" in error


def test_a_storage_path_where_no_user_may_write(muster: Muster) -> None:
    """/proc refuses root as well."""
    assert "/proc/muster/storage cannot be written" in one_line(muster("up", "--storage", "/proc/muster/storage"))


def test_a_storage_path_of_a_newer_format(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=2\ncluster.id=abc\n")
    error = one_line(muster("up", "--storage", "."))
    assert "format version 2" in error
    assert "reads up to 1" in error


def test_a_damaged_meta_properties(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=one\n")
    assert "meta.properties is damaged" in one_line(muster("up", "--storage", "."))


def test_a_storage_path_in_use(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with (tmp_path / "run" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("4711")
        lock.flush()
        assert "in use by the muster up with pid 4711" in one_line(muster("up", "--storage", "."))
    assert not (tmp_path / "meta.properties").exists()  # only one of two starts in a new directory generates the id


def test_a_start_that_is_refused_leaves_the_new_directory_to_the_one_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both of them saw that the directory was not there, and the other one is the first to lock it."""
    directory = tmp_path / "storage"
    with contextlib.ExitStack() as other:

        def prepare(storage: Path) -> None:
            fit.prepare(storage)
            other.enter_context(locked(storage))

        monkeypatch.setattr(start, "prepare", prepare)
        monkeypatch.setattr(start, "keep_files_private", lambda: None)  # a setting of the whole process
        with contextlib.ExitStack() as undo, pytest.raises(CliError, match="in use by the muster up"):
            start.Start(MusterConfig.model_validate({"storage.path": str(directory)}), None, LoggedSteps(), undo).run()
        assert (directory / "run" / "lock").exists()


def test_storage_in_use_on_another_host(muster: Muster, tmp_path: Path) -> None:
    """Its pid has no meaning here: it may be that of any process."""
    (tmp_path / "run").mkdir()
    with (tmp_path / "run/lock").open("w") as lock, subprocess.Popen(["cat"], stdin=subprocess.PIPE) as bystander:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(f"{bystander.pid} elsewhere")
        lock.flush()
        in_use = one_line(muster("up", "--storage", "."))
        assert f"in use by the muster up with pid {bystander.pid} on host elsewhere" in in_use
        assert "runs on host elsewhere; run muster down there" in one_line(muster("down", "--storage", "."))
        assert bystander.poll() is None


def listener_behind_a_free_port() -> socket.socket:
    """Below the ports that the kernel assigns to clients, so that no process takes the one before it in between."""
    for port in range(20_001, 32_000, 2):
        try:
            with socket.create_server(("127.0.0.1", port - 1)):
                return socket.create_server(("127.0.0.1", port))
        except OSError:
            continue
    raise AssertionError("no two free ports side by side")


@pytest.mark.parametrize("which", ["kafka", "second kafka", "metrics"])
def test_a_taken_port(muster: Muster, tmp_path: Path, which: str) -> None:
    with listener_behind_a_free_port() as taken:
        port = taken.getsockname()[1]
        arguments = {
            "kafka": ["--port", str(port)],
            "second kafka": ["--port", str(port - 1), "--gateways", "2"],
            "metrics": ["--port", "0", "--set", f"metrics.port={port}"],
        }[which]
        error = one_line(muster("up", *arguments))
    assert f"port {port} on 127.0.0.1 is taken" in error
    assert f"(pid {os.getpid()})" in error
    assert ("--set metrics.port" if which == "metrics" else "--port") in error


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            {"listeners": "PLAINTEXT://0.0.0.0:9092"},
            "listeners=PLAINTEXT://0.0.0.0:9092 PLAINTEXT is open on all interfaces; set the address for",
        ),
        (
            {"advertised.listeners": "{host}:9000", "gateway.count": "2"},
            "gateways 1 and 2 both advertise 127.0.0.1:9000; put {id}, {host} or {label:NAME} into advertised.",
        ),
    ],
)
def test_what_clients_could_not_connect_to(
    muster: Muster, tmp_path: Path, properties: dict[str, str], message: str
) -> None:
    sets = [word for name, value in properties.items() for word in ("--set", f"{name}={value}")]
    assert message in one_line(muster("up", *sets))
    assert not (tmp_path / "muster-data").exists()


@pytest.mark.parametrize("kind", ["no listener", "no response"])
def test_a_zookeeper_that_cannot_be_reached(muster: Muster, kind: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"127.0.0.1:{silent.getsockname()[1]}"
        if kind == "no listener":
            silent.close()
        done = muster("up", "--port", "0", "--zookeeper", hosts)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith(f"muster: no ZooKeeper answers at {hosts} within 10 s")
    assert not (tmp_path / "muster-data/run/cluster.json").exists()


@pytest.mark.parametrize(
    "command", [["down"], ["status"], ["drain", "n"], ["topics", "list"], ["groups", "describe", "billing"]]
)
def test_nothing_runs_here(muster: Muster, command: list[str]) -> None:
    assert "no muster runs on storage muster-data" in one_line(muster(*command))


def test_down_has_nothing_to_stop(muster: Muster) -> None:
    said = "muster: no muster runs on storage muster-data: nothing to stop; name another with --storage"
    assert one_line(muster("down")) == said


def test_down_if_running_is_content(muster: Muster) -> None:
    assert (done := muster("down", "--if-running")).returncode == 0, done.stderr


def test_an_error_in_the_background_is_reported_where_it_was_started(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "up.log").write_text("before\n")
    done = muster("up", "--storage", "/proc/data", "--detach", "up.log")
    assert done.returncode == 1
    assert "muster: storage path /proc/data cannot be written" in one_line(done)
    assert (tmp_path / "up.log").read_text() == "before\n" + done.stderr


def test_a_log_that_cannot_be_written(muster: Muster) -> None:
    assert "log /proc/up.log cannot be written" in one_line(muster("up", "--detach", "/proc/up.log"))


def test_nodes_are_waited_for_on_a_given_ray_only(muster: Muster) -> None:
    assert "--nodes needs --address" in one_line(muster("up", "--nodes", "2"))


def test_no_gateway_responds(muster: Muster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        server = f"127.0.0.1:{closed.getsockname()[1]}"
    assert f"no gateway responds at {server}" in one_line(muster("topics", "list", "--bootstrap-server", server))


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ("up --colour", "muster up"),
        ("start", "muster"),
        ("groups describ", "muster groups"),
        ("topics create", "muster topics create"),
        ("fault inject error --once --nth 2", "muster fault inject"),
        ("spark lag --once", "muster spark"),
    ],
)
def test_wrong_usage_points_to_the_help(muster: Muster, arguments: str, command: str) -> None:
    done = muster(*arguments.split())
    assert done.returncode == 2
    assert re.fullmatch(rf"muster: [A-Z-][^?]*[^?.][.?] See: {command} --help", one_line(done))


@pytest.mark.parametrize("arguments", ["", "groups", "fault"])
def test_without_a_command_there_is_the_help(muster: Muster, arguments: str) -> None:
    done = muster(*arguments.split())
    assert done.returncode in (0, 2), "0 with click before 8.2, which writes the help to stdout"
    shown = (done.stdout or done.stderr).splitlines()
    assert shown[0].startswith(f"Usage: muster {arguments}".strip())
    assert "Commands:" in shown


def test_a_user_whose_name_drives_a_terminal(muster: Muster) -> None:
    line = one_line(muster("user", "add", "\x1b[31mann", "--file", "users", "--password", "x"))
    assert "a name has 1 to 255 printable characters" in line


@pytest.mark.parametrize(
    "arguments",
    [
        *("groups describe {}", "groups history {}", "groups delete ok {}", "groups evict {} m", "groups evict g {}"),
        *("groups reset-offsets {} --undo", "groups reset-offsets g --to-latest --topic {}:0"),
        *("topics create {}", "topics delete {}", "topics describe {}"),
    ],
)
def test_a_name_that_is_not_utf_8(muster: Muster, arguments: str) -> None:
    """It would crash librdkafka."""
    done = muster(*arguments.format("\udcff").split())
    assert "is not UTF-8" in one_line(done)
    assert done.returncode == 2


@pytest.mark.parametrize("command", ["status", "groups list", "groups waiting"])
def test_an_address_where_no_ray_listens(muster: Muster, command: str) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        assert f"no Ray responds at {address}: " in one_line(muster(*command.split(), "--address", address))


def test_an_address_where_something_else_listens_and_says_nothing(muster: Muster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert f"no Ray responds at {address}: timed out" in one_line(muster("status", "--address", address))


def test_without_a_muster_there_is_nothing_to_query_over_http(muster: Muster) -> None:
    assert one_line(muster("groups", "waiting")).startswith("muster: no muster runs on storage muster-data;")
