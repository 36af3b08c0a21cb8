"""A separate host on this machine: own processes, network, /srv and home, without root or docker (namespaces).

The start commands of cluster.yaml run in it unchanged: fixed ports and `ray stop`, which ends any Ray in the process
table, affect nothing outside. When the host ends, so does everything that was started in it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
ADDRESS = "10.77.0.10"
_STOP_S = 30
_PS = "ps -eo pid=,stat=,args="
_UNSHARE = ["unshare", "--user", "--map-root-user", "--net", "--pid", "--mount", "--fork", "--kill-child"]
# The shell is process 1 and reaps; Ray takes the host's address from the default route.
_SET_UP = f"""
set -e
ip link set lo up
ip addr add {ADDRESS}/32 dev lo
ip route add default dev lo src {ADDRESS}
mount --bind "$1" /srv
shift
"$@"
"""


class LoneHost:
    """``with LoneHost(folder) as host``: ``folder`` holds its home, its /srv and Ray's files."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.srv = folder / "srv"
        self._folder = folder

    def __enter__(self) -> LoneHost:
        if (refused := _refused()) is not None:
            pytest.fail(f"this machine does not allow namespaces: {refused}")
        for made in (self.home / ".ray", self.srv):
            made.mkdir(parents=True)
        token = self.home / ".ray/auth_token"
        token.write_text("0123456789abcdef" * 4)
        token.chmod(0o600)
        (self.home / "muster-venv").symlink_to(sys.prefix)
        self._ray = tempfile.TemporaryDirectory(prefix="muster-host-", dir="/tmp")  # short, for the sockets in it
        environment = {
            "HOME": str(self.home),
            "PATH": f"{sys.prefix}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": str(ROOT),
            "RAY_TMPDIR": self._ray.name,
            "TMPDIR": self._ray.name,
        }
        set_up = ["bash", "-c", _SET_UP, "host", str(self.srv), sys.executable, "-m", __name__]
        self._process = subprocess.Popen(
            [*_UNSHARE, "--mount-proc", *set_up],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # its process 1 ends too, and with it all others
        self._process.wait(_STOP_S)
        self._ray.cleanup()

    def run(self, command: str, timeout_s: float = 240) -> tuple[int, str]:
        """Exit code and output of a shell command; -9 if it takes too long."""
        code, output = self._exchange(command, timeout_s)
        return code, output

    def done(self, command: str) -> str:
        """Output of a shell command that must succeed."""
        code, output = self.run(command)
        assert code == 0, f"{command}: exit code {code}\n{output}"
        return output

    def processes(self) -> dict[int, str]:
        """Command lines of all live processes that were started here, by pid."""
        rows = [line.split(None, 2) for line in self.done(_PS).splitlines()]
        return {
            int(pid): args
            for pid, state, args in rows
            if not state.startswith("Z") and __name__ not in args and _PS not in args
        }

    def kill_next_raylet(self) -> None:
        """Kill the next raylet as it starts, as one that ends since Ray's agents are not there within 15 s."""
        self.done("(until pkill -9 -x raylet; do sleep 0.05; done) > /dev/null 2>&1 &")

    def _exchange(self, *query: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(query) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the host has ended with exit code {self._process.wait(_STOP_S)}"
        return json.loads(line)


def _refused() -> str | None:
    """Why no such host is possible; None if it is."""
    try:
        tried = subprocess.run([*_UNSHARE, "ip", "link"], capture_output=True, text=True)
    except OSError as error:
        return str(error)
    return tried.stderr.strip() or "unshare failed" if tried.returncode else None


def main() -> None:
    """Inside: a command and its timeout per line in, its exit code and output out. Files take output: daemons stay."""
    for line in sys.stdin:
        command, timeout_s = json.loads(line)
        with tempfile.TemporaryFile() as output:
            shell = subprocess.Popen(
                ["bash", "-c", command],
                cwd=os.environ["HOME"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                code = shell.wait(timeout_s)
            except subprocess.TimeoutExpired:
                os.killpg(shell.pid, signal.SIGKILL)
                code = shell.wait()
            output.seek(0)
            print(json.dumps([code, output.read().decode(errors="replace")]), flush=True)


if __name__ == "__main__":
    main()
