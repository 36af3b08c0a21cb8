"""The network of the hosts: a namespace for each, on a bridge without a link to this machine's network."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

_PREFIX = "muster-"
_SWITCH = f"{_PREFIX}switch"
_LOCK = Path("/run/muster-hosts.lock")
_MASK, _GATEWAY = "24", "10.77.0.254"
_CLONE_NEWNET = 0x40000000
_END_S = 20.0
PROGRAMS = {
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "rsync": "rsync",
}
"""Programs that hosts need, and the Debian package of each."""


class NotPossible(RuntimeError):
    """This machine does not allow hosts; the text says what is missing."""


def refuse_unfit() -> None:
    """NotPossible, with everything that is missing."""
    if os.geteuid() != 0:
        raise NotPossible("it makes network namespaces, which needs root")
    missing = {name: package for name, package in PROGRAMS.items() if shutil.which(name) is None}
    if missing:
        raise NotPossible(
            f"{', '.join(missing)} missing; Debian has them in: {' '.join(sorted(set(missing.values())))}"
        )
    tried = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        raise NotPossible(f"no namespaces can be made here (CAP_SYS_ADMIN, CAP_NET_ADMIN): {tried.stderr.strip()}")


class Network:
    """``with Network(addresses) as network``, by name of host. What an earlier one left that was killed is removed."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._addresses = addresses
        self._undo = ExitStack()

    def __enter__(self) -> Network:
        with ExitStack() as undo:
            undo.enter_context(_only_one())
            _remove_all()
            undo.callback(_remove_all)
            _ip("netns", "add", _SWITCH)
            _on(_SWITCH, "link", "add", "br0", "type", "bridge")
            _on(_SWITCH, "addr", "add", f"{_GATEWAY}/{_MASK}", "dev", "br0")
            _on(_SWITCH, "link", "set", "br0", "up")
            for name, address in self._addresses.items():
                self._add(name, address)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def _add(self, name: str, address: str) -> None:
        host = _PREFIX + name
        _ip("netns", "add", host)
        _on(_SWITCH, "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", host)
        _on(_SWITCH, "link", "set", f"to-{name}", "master", "br0", "up")
        _on(host, "link", "set", "lo", "up")
        _on(host, "addr", "add", f"{address}/{_MASK}", "dev", "eth0")
        _on(host, "link", "set", "eth0", "up")
        _on(host, "route", "add", "default", "via", _GATEWAY)  # Ray takes its host's address from it

    def cut(self, name: str) -> None:
        """Pull the cable, at the switch: no one sees a closed connection, and the host keeps its address."""
        _on(_SWITCH, "link", "set", f"to-{name}", "down")

    def heal(self, name: str) -> None:
        _on(_SWITCH, "link", "set", f"to-{name}", "up")

    def inside(self, name: str, command: Sequence[str]) -> list[str]:
        """Return a command that runs ``command`` in the host's network."""
        return [_program("ip"), "netns", "exec", _PREFIX + name, *command]

    def pids(self, name: str) -> list[int]:
        return _pids(_PREFIX + name)

    def until_empty(self, name: str) -> None:
        """Wait until no process is left in the host's network."""
        _until_empty(_PREFIX + name)

    @contextmanager
    def entered(self, name: str) -> Iterator[None]:
        """Move this thread into the host's network, with the threads and processes that it starts meanwhile."""
        with Path("/proc/thread-self/ns/net").open() as before, Path(f"/run/netns/{_PREFIX}{name}").open() as wanted:
            _set_namespace(wanted.fileno())
            try:
                yield
            finally:
                _set_namespace(before.fileno())


@contextmanager
def _only_one() -> Iterator[None]:
    with _LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise NotPossible("another run has hosts on this machine; wait for its end") from error
        yield


def _remove_all() -> None:
    """Every namespace of ours, with all its processes."""
    listed = [line.split()[0] for line in _ip("netns", "list").splitlines()]
    ours = [name for name in listed if name.startswith(_PREFIX)]
    for name in ours:
        for pid in _pids(name):
            if pid != os.getpid():
                _kill(pid)
    for name in ours:
        _until_empty(name)
        _ip("netns", "del", name)


def _until_empty(namespace: str) -> None:
    deadline = time.monotonic() + _END_S
    while left := [pid for pid in _pids(namespace) if pid != os.getpid()]:
        assert time.monotonic() < deadline, f"processes {left} of {namespace} do not end"
        time.sleep(0.02)


def _pids(namespace: str) -> list[int]:
    return [int(pid) for pid in _ip("netns", "pids", namespace).split()]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _set_namespace(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _on(namespace: str, *words: str) -> None:
    _ip("-n", namespace, *words)


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr.strip()}"
    return done.stdout


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise NotPossible(f"{name} is not installed")
    return found
