"""pytest-muster before it has a cluster: its wheel, its choice of a command, and its messages on failure."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from email.parser import Parser
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from pytest_muster import FaultClient, Unreachable
from pytest_muster.command import NoMusterCommand, muster_command
from tests.plugin.users_environment import build_wheel, make_environment, run_pytest

ONE_TEST = "def test_one(muster): pass\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Modules of an environment with the wheel and pytest."""
    return make_environment(tmp_path_factory.mktemp("environment") / "venv", wheel)


class TestWheel:
    def test_needs_pytest_and_nothing_else(self, wheel: Path) -> None:
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
            metadata = Parser().parsestr(archive.read(name).decode())
            assert metadata.get_all("Requires-Dist") == ["pytest>=7"]
            assert metadata["Requires-Python"] == ">=3.9"
            assert "pytest_muster/py.typed" in archive.namelist()
            tops = {name.split("/")[0] for name in archive.namelist()}
        assert tops == {"pytest_muster", "pytest_muster-0.1.0.dist-info"}

    def test_it_is_the_only_plugin_of_that_name(self) -> None:
        (plugin,) = entry_points(group="pytest11", name="muster")
        assert plugin.dist is not None
        assert (plugin.value, plugin.dist.name) == ("pytest_muster.plugin", "pytest-muster")

    def test_it_costs_nothing_where_it_is_not_used(self, python: Path) -> None:
        code = (
            "import pytest, sys, warnings; before = set(sys.modules); import pytest_muster.plugin; "
            "print(*set(sys.modules) - before)"
        )
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
        assert set(done.stdout.split()) == {"pytest_muster", "pytest_muster.plugin"}

    def test_every_name_is_there(self, python: Path) -> None:
        code = "from pytest_muster import *; import pytest_muster; assert set(pytest_muster.__all__) <= set(globals())"
        subprocess.run([python, "-c", code], check=True)


class TestCommand:
    @pytest.fixture(autouse=True)
    def bare(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put a Python in an otherwise empty folder, and two empty folders on PATH."""
        monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
        monkeypatch.setenv("PATH", f"{tmp_path / 'a'}:{tmp_path / 'b'}")

    def program(self, path: Path) -> str:
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return str(path)

    def test_what_is_given_goes_before_all(self, tmp_path: Path) -> None:
        self.program(tmp_path / "venv" / "muster")
        mine = self.program(tmp_path / "b" / "my-muster")
        assert muster_command("my-muster --flag 'two words'") == (mine, "--flag", "two words")

    def test_the_one_beside_this_python_goes_before_that_on_path(self, tmp_path: Path) -> None:
        on_path = self.program(tmp_path / "b" / "muster")
        assert muster_command() == (on_path,)
        beside = self.program(tmp_path / "venv" / "muster")
        assert muster_command() == (beside,)

    def test_uvx_installs_what_is_configured_and_nothing_else(self, tmp_path: Path) -> None:
        uvx = self.program(tmp_path / "a" / "uvx")
        with pytest.raises(NoMusterCommand):
            muster_command()
        assert muster_command(None, "./dist/muster") == (uvx, "--from", "./dist/muster", "muster")
        on_path = self.program(tmp_path / "b" / "muster")
        assert muster_command(None, "./dist/muster") == (on_path,)

    def test_none(self) -> None:
        with pytest.raises(NoMusterCommand, match=r"no muster command beside this Python or on PATH.*MUSTER_COMMAND"):
            muster_command()
        with pytest.raises(NoMusterCommand, match="and no uvx to install muster @ file"):
            muster_command(None, "muster @ file:///x")
        with pytest.raises(NoMusterCommand, match="MUSTER_COMMAND=nope does not exist"):
            muster_command("nope up")

    def test_the_other_project_on_pypi_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        info = tmp_path / "packages" / "muster-0.0.1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.0\nName: muster\nVersion: 0.0.1\n")
        monkeypatch.syspath_prepend(tmp_path / "packages")
        with pytest.raises(
            NoMusterCommand, match=r"muster 0.0.1, which .* is another project.* is muster-kafka\. Install"
        ):
            muster_command()


class TestFailures:
    def fails(self, python: Path, tmp_path: Path, ini: str = "", **environment: str) -> str:
        """Output of a suite of one test whose cluster does not start: one error, no traceback."""
        (tmp_path / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
        (tmp_path / "test_it.py").write_text(ONE_TEST)
        out = run_pytest(python, tmp_path, f"--basetemp={tmp_path / 'temp'}", **environment).stdout
        assert "1 error in" in out
        assert "Traceback" not in out
        assert "During handling" not in out
        return out

    def test_a_cluster_that_does_not_start(self, python: Path, tmp_path: Path) -> None:
        command = f"{sys.executable} -m muster.gateway.cli.main"
        out = self.fails(python, tmp_path, "muster_properties = no.such.property = 1", MUSTER_COMMAND=command)
        assert out.count(f"muster up ended with exit code 1: {command} up --port 0") == 1
        assert out.count("muster: unknown property no.such.property") == 1

    def test_a_command_that_is_no_muster(self, python: Path, tmp_path: Path) -> None:
        out = self.fails(python, tmp_path, "muster_command = echo this is no muster")
        assert "muster up ended with exit code 0: " in out
        assert "this is no muster up --port 0" in out.split("the end of")[1]

    def test_a_command_that_never_gets_ready(self, python: Path, tmp_path: Path) -> None:
        program = "import sys, time; print('waiting for Godot', flush=True); time.sleep(600)"
        (tmp_path / "slow").write_text(f"#!{sys.executable}\n{program}\n")
        (tmp_path / "slow").chmod(0o755)
        out = self.fails(python, tmp_path, "muster_start_timeout_s = 2", MUSTER_COMMAND=str(tmp_path / "slow"))
        assert f"muster up is not ready after 2 s: {tmp_path / 'slow'} up --port 0" in out
        assert "waiting for Godot" in out

    def test_no_command(self, python: Path, tmp_path: Path) -> None:
        assert "there is no muster command beside this Python or on PATH" in self.fails(python, tmp_path)

    def test_a_line_that_is_no_property_is_named(self, python: Path, tmp_path: Path) -> None:
        (tmp_path / "pytest.ini").write_text("[pytest]\nmuster_properties = nonsense\n")
        (tmp_path / "test_it.py").write_text(ONE_TEST)
        out = run_pytest(python, tmp_path, MUSTER_COMMAND="true").stdout
        assert "muster_properties has lines NAME=VALUE, not 'nonsense'" in out


class TestFaultClient:
    """Which of several gateways it calls. These are sockets, since the test is about failing connections."""

    @contextmanager
    def gateway(self, serve: Callable[[socket.socket], None]) -> Iterator[tuple[str, list[bytes]]]:
        """Yield the URL of a gateway that passes one connection to ``serve``, and the requests received."""
        requests: list[bytes] = []

        def accept() -> None:
            try:
                connection, _ = listener.accept()
            except OSError:  # no request was sent
                return
            with connection:
                requests.append(connection.recv(65536))
                serve(connection)

        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=accept)
            thread.start()
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
            finally:
                listener.shutdown(socket.SHUT_RDWR)
                thread.join()

    @staticmethod
    def responses(connection: socket.socket) -> None:
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{"faults": []}')

    @pytest.fixture
    def silent(self) -> Iterator[str]:
        """Yield a host that answers no SYN, like one that is switched off: the queue of its listener is full."""
        with (
            socket.create_server(("127.0.0.1", 0), backlog=0) as listener,
            closing(socket.create_connection(listener.getsockname())),
        ):
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"

    def is_passed_over(self, url: str) -> None:
        with self.gateway(self.responses) as (living, _):
            assert FaultClient(url, f"{living}/metrics", timeout_s=1).faults() == []

    @pytest.mark.parametrize(
        "host",
        [
            pytest.param("127.0.0.1:1", id="refused"),
            pytest.param("255.255.255.255:9404", id="no-route"),
            pytest.param("no-such-host.invalid:9404", id="unknown-name"),
            pytest.param(f"{'a' * 64}.invalid:9404", id="impossible-name"),
        ],
    )
    def test_goes_on_to_the_next_gateway(self, host: str) -> None:
        self.is_passed_over(f"http://{host}")

    def test_goes_on_to_the_next_gateway_when_a_host_is_silent(self, silent: str) -> None:
        self.is_passed_over(silent)

    def test_goes_on_to_the_next_gateway_when_there_is_no_tls(self) -> None:
        with self.gateway(lambda connection: None) as (plain, _):
            self.is_passed_over(plain.replace("http:", "https:"))

    @pytest.mark.parametrize(
        "serve",
        [
            pytest.param(lambda connection: None, id="closed"),
            pytest.param(lambda connection: list(iter(lambda: connection.recv(65536), b"")), id="no-answer"),
            pytest.param(lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n<html>"), id="no-json"),
        ],
    )
    def test_a_request_that_may_have_been_done_is_not_sent_to_another(
        self, serve: Callable[[socket.socket], None]
    ) -> None:
        with (
            self.gateway(serve) as (first, requests),
            self.gateway(self.responses) as (second, others),
            pytest.raises(Unreachable, match=f"{first} does not respond"),
        ):
            FaultClient(first, second, timeout_s=1).kill("log-0")
        assert requests[0].startswith(b"POST /v1/faults ")
        assert others == []

    def test_says_why_none_can_be_connected_to(self) -> None:
        with pytest.raises(Unreachable) as failed:
            FaultClient("http://127.0.0.1:1", "http://127.0.0.1:2").faults()
        assert str(failed.value) == (
            "no gateway listens at http://127.0.0.1:1 (Connection refused), http://127.0.0.1:2 (Connection refused)"
        )

    @pytest.mark.parametrize("url", ["localhost:9404", "ftp://localhost", "http://", "http://h:99999", "http://[::1"])
    def test_an_address_that_is_no_url_is_named(self, url: str) -> None:
        with pytest.raises(ValueError, match="is no URL of a gateway, as http://HOST:PORT"):
            FaultClient(url)
