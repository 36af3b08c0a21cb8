"""A host on this machine: its own network, processes, home, /tmp, /dev/shm and sshd, out of Linux namespaces.

It needs root. Files outside home, /tmp and /srv are the machine's. When the process that started a host ends, in
whatever way, so do the host and everything that runs on it.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_muster.bound import bound
from tests.hosts.network import Network

HOME = "/root"
SHARED = "/srv/muster"
"""Where every host has the directory that they share."""
_START_S, _STOP_S = 120.0, 20.0
_NAMESPACES = ("--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc", "--uts", "--ipc")
# Process 1 of the host: bash, which reaps. What is visible below home or /tmp is bound before these are covered.
_SET_UP = """
set -e
mount --make-rprivate /
hostname "$NAME"
while read -r from to; do
  mkdir -p "$to"
  mount --rbind "$from" "$to"
done < "$DISK/etc/mounts"
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /srv
mkdir /srv/muster
mount --bind "$STORAGE" /srv/muster
mount --bind "$DISK/etc/hosts" /etc/hosts
mount --bind "$DISK/etc/resolv.conf" /etc/resolv.conf
mount --bind "$DISK/etc" /mnt
mount --rbind "$DISK/home" /root
mount --rbind "$DISK/tmp" /tmp
mkdir -p /run/sshd
/usr/sbin/sshd -D -e -f /mnt/sshd_config &
while :; do sleep 3600 & wait || true; done
"""
_SSHD = """
ListenAddress {address}
HostKey /mnt/hostkey
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
MaxStartups 50
MaxSessions 50
{environment}
"""


@dataclass
class Host:
    """``disk`` holds its home and /tmp, and survives :meth:`power_off`."""

    name: str
    address: str
    network: Network
    disk: Path
    storage: Path
    """The directory of this machine that the hosts share."""
    authorized_key: str
    visible: Sequence[Path] = ()
    """Paths of this machine that it sees, also below home and /tmp."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of logins, as from /etc/environment."""
    _process: subprocess.Popen[bytes] | None = None

    @property
    def home(self) -> Path:
        """Its home, as seen from this machine."""
        return self.disk / "home"

    @property
    def running(self) -> bool:
        return self._process is not None

    def install(self, names: Mapping[str, str]) -> None:
        """Install an empty disk. ``names``: address by name, of all hosts."""
        etc = self.disk / "etc"
        for folder in (etc, self.home / ".ssh", self.disk / "tmp"):
            folder.mkdir(parents=True)
        (self.disk / "tmp").chmod(0o1777)
        known = [f"{address} {name}" for name, address in names.items()]
        (etc / "hosts").write_text("\n".join(["127.0.0.1 localhost", *known, ""]))
        (etc / "resolv.conf").write_text("")  # there is no way to a name server: a look-up has to fail at once
        (etc / "mounts").write_text("".join(f"{path} {self._place(path)}\n" for path in self.visible))
        words = " ".join(f'"{name}={value}"' for name, value in self.environment.items())
        (etc / "sshd_config").write_text(
            _SSHD.format(address=self.address, environment=f"SetEnv {words}" if words else "")
        )
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(etc / "hostkey")],
            check=True,
            stdin=subprocess.DEVNULL,
        )
        (self.home / ".ssh/authorized_keys").write_text(self.authorized_key)

    def power_on(self) -> None:
        """Start the host, and wait until its sshd accepts connections.

        Raises AssertionError with the log if it does not.
        """
        log = self.disk / "host.log"
        command = self.network.inside(self.name, ["unshare", *_NAMESPACES, "bash", "-c", _SET_UP])
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                bound(command, signal.SIGKILL),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={
                    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                    "NAME": self.name,
                    "DISK": str(self.disk),
                    "STORAGE": str(self.storage),
                },
            )
        deadline = time.monotonic() + _START_S
        while not _accepts(self.address):
            ended = self._process.poll() is not None or time.monotonic() > deadline
            assert not ended, f"host {self.name} does not start:\n{log.read_text(errors='replace')[-2000:]}"
            time.sleep(0.02)

    def power_off(self) -> None:
        """Every process of the host ends at once; peers see their connections closed."""
        if self._process is None:
            return
        self._process.kill()  # of unshare, which takes process 1 of the host with it, and that all others
        self._process.wait(_STOP_S)
        self._process = None
        self.network.until_empty(self.name)

    def run(self, command: str, timeout_s: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run a shell command as in a login of root there, with Muster's venv in PATH. Raises TimeoutExpired."""
        set_up = f"cd; export PATH={HOME}/muster-venv/bin:$PATH RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0; "
        return self._entered(["bash", "-c", set_up + command], timeout_s)

    def start(self, command: str) -> None:
        """Run a shell command there in the background, until the host is switched off."""
        self.done(f"setsid nohup {command} >> /tmp/started.log 2>&1 < /dev/null &")

    def done(self, command: str, timeout_s: float = 120.0) -> str:
        """Return the standard output of a shell command that has to succeed."""
        finished = self.run(command, timeout_s)
        assert finished.returncode == 0, f"{command} on {self.name}: {finished.stdout}{finished.stderr}"
        return finished.stdout

    def processes(self) -> dict[int, str]:
        """Command lines by pid, of this machine."""
        found = {}
        for pid in self.network.pids(self.name):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:  # it has ended
                continue
            found[pid] = b" ".join(words).decode(errors="replace").strip()
        return found

    def _entered(self, command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        assert self._process is not None, f"host {self.name} is off"
        first = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()[0]
        entering = ["nsenter", "--target", first, "--net", "--mount", "--pid", "--uts", "--ipc", "env", "-i"]
        variables = {
            "HOME": HOME,
            "TERM": "dumb",
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            **self.environment,
        }
        words = [f"{name}={value}" for name, value in variables.items()]
        whole = [_program("nsenter"), *entering[1:], *words, *command]
        return subprocess.run(
            bound(whole, signal.SIGKILL), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s
        )

    def _place(self, path: Path) -> Path:
        """Where a path is bound, so that it is seen once home and /tmp are covered."""
        for covered, by in ((Path(HOME), self.home), (Path("/tmp"), self.disk / "tmp")):
            if path.is_relative_to(covered):
                return by / path.relative_to(covered)
        return path


def _program(name: str) -> str:
    found = shutil.which(name)
    assert found is not None, f"{name} is not installed"
    return found


def _accepts(address: str) -> bool:
    try:
        socket.create_connection((address, 22), timeout=1.0).close()
    except OSError:
        return False
    return True
