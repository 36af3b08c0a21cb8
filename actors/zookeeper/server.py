"""A server of an ensemble, and what starts a server again that has ended by itself."""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import re
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from muster.actors.runtime.zookeeper import (
    EmbeddedZooKeeper,
    ZooKeeperStartError,
    class_path,
    java_command,
)
from muster.placement.host_port import host_port
from muster.placement.zookeeper.ensemble import Ensemble

log = logging.getLogger(__name__)

_INIT_TICKS = 30
_SYNC_TICKS = 5
"""A follower without its leader looks for another one after so many seconds, which is half a client's session."""
_STABLE_S = 60.0
"""A server that ran for so long is started again at once."""
MAX_PAUSE_S = 10.0
_JAAS = """QuorumServer {{
  org.apache.zookeeper.server.auth.DigestLoginModule required user_muster="{password}";
}};
QuorumLearner {{
  org.apache.zookeeper.server.auth.DigestLoginModule required username="muster" password="{password}";
}};
"""
_AWAY = b"not currently serving requests"


class EnsembleServer(EmbeddedZooKeeper):
    """A running server; it serves as soon as it knows a majority."""

    _number: int
    _ensemble: Ensemble
    _credentials: str

    @classmethod
    def begin(
        cls,
        data_dir: Path,
        ensemble: Ensemble,
        number: int,
        credentials: str,
        *,
        copied_from: Path | None = None,
        timeout_s: float = 30,
        lib: str | None = None,
    ) -> Self:
        """Start the server ``number`` on the data in ``data_dir``; returns once it listens for clients.

        What servers know each other by, and :func:`administrator`, are derived from ``credentials``. A server without
        data that founds the ensemble begins with those in ``copied_from``, if any.
        Raises ZooKeeperStartError as :meth:`EmbeddedZooKeeper.start` does.
        """
        own = ensemble.server(number)
        server = cls(data_dir.absolute(), own.address, own.client_port, class_path(lib))
        server._number, server._ensemble, server._credentials = number, ensemble, credentials
        if ensemble.is_new:
            _found(server.data_dir, copied_from)
        server.restart(timeout_s)
        return server

    def _command(self) -> list[str]:
        folder = self.data_dir
        dynamic = folder / "zoo.cfg.dynamic"
        jaas = folder / "jaas.conf"
        password = _derived("quorum", self._credentials)
        try:
            (folder / "myid").write_text(f"{self._number}\n")
            dynamic.write_text("".join(f"{server.line}\n" for server in self._ensemble.servers))
            jaas.touch(mode=0o600)
            jaas.write_text(_JAAS.format(password=password))
        except OSError as error:
            raise ZooKeeperStartError(f"cannot write ZooKeeper's data in {folder}: {error.strerror}") from error
        own = {
            "initLimit": _INIT_TICKS,
            "syncLimit": _SYNC_TICKS,
            "standaloneEnabled": "false",
            "reconfigEnabled": "true",
            "dynamicConfigFile": _newest(dynamic),
            # Without data, it votes only if it founds the ensemble (the file ``initialize``).
            "db.autocreate": "false",
            "quorum.auth.enableSasl": "true",
            "quorum.auth.learnerRequireSasl": "true",
            "quorum.auth.serverRequireSasl": "true",
            "DigestAuthenticationProvider.superDigest": _digest(administrator(self._credentials)),
        }
        java, *rest = java_command(folder, own, "server.quorum.QuorumPeerMain", self._jars)
        return [java, f"-Djava.security.auth.login.config={jaas}", *rest]

    def _responds(self) -> bool:
        return super()._responds() or _AWAY in self._conf()

    def _confirm(self, deadline: float) -> None:
        """Do nothing: whether it serves depends on the others."""


def _found(folder: Path, copied_from: Path | None) -> None:
    """Let the server vote although it has no data, or have those of the server that was there before."""
    data = folder / "version-2"
    try:
        if data.exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
        if copied_from is None:
            (folder / "initialize").touch()
            return
        partial = folder / "version-2.partial"
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(copied_from, partial)
        partial.rename(data)
    except OSError as error:
        raise ZooKeeperStartError(f"cannot write ZooKeeper's data in {folder}: {error.strerror}") from error


def _newest(first: Path) -> Path:
    """Return the dynamic configuration that ZooKeeper wrote last: its version, in hex, ends the name."""
    found = {
        int(match[1], 16): file
        for file in first.parent.glob(f"{first.name}.*")
        if (match := re.fullmatch(rf"{re.escape(first.name)}\.([0-9a-f]+)", file.name))
    }
    return found[max(found)] if found else first


def administrator(credentials: str) -> str:
    """Return ``USER:PASSWORD`` of who may change the ensemble.

    Nobody else uses it: the server writes a line for each node that is created by a session that has it.
    """
    return f"super:{_derived('super', credentials)}"


def _derived(what: str, credentials: str) -> str:
    return hashlib.sha256(f"{what} {credentials}".encode()).hexdigest()


def _digest(credentials: str) -> str:
    """ZooKeeper's ``DigestAuthenticationProvider.generateDigest``."""
    user = credentials.partition(":")[0]
    return f"{user}:{base64.b64encode(hashlib.sha1(credentials.encode()).digest()).decode()}"  # noqa: S324


def taken_ports(address: str, ports: tuple[int, ...]) -> list[str]:
    """Return those of the ports that cannot be bound at this node's address, and why."""
    found = []
    for port in ports:
        try:
            with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java does
                probe.bind((address, port))
        except OSError as error:
            found.append(f"{host_port(address, port)}: {os.strerror(error.errno or 0)}")
    return found


class Restarts:
    """Restarts of a server that has ended by itself, with growing pauses."""

    def __init__(self, server: EmbeddedZooKeeper, note: Callable[[str], None]) -> None:
        self._server = server
        self._note = note
        self._ended_s: float | None = None
        self._started_s = time.monotonic()
        self._pause_s = self._due_s = 0.0
        self._reason: str | None = None

    def check(self) -> None:
        """Start the server if it is down and the time has come."""
        if not self._server.is_lost:
            return
        now_s = time.monotonic()
        if self._ended_s is None:
            self._ended_s, self._reason = now_s, None
            if now_s - self._started_s > _STABLE_S:
                self._pause_s = 0.0
            self._due_s = now_s + self._pause_s
            self._note("ZooKeeper ended by itself and is started again; meanwhile, what serves continues")
        if now_s < self._due_s:
            return
        self._pause_s = min(MAX_PAUSE_S, 2 * self._pause_s or 1.0)
        try:
            self._server.restart()
        except ZooKeeperStartError as error:
            self._due_s = time.monotonic() + self._pause_s
            if self._reason is None:
                self._reason = str(error)
                self._note(f"{error}; it is tried again, every {MAX_PAUSE_S:g} s in the end")
            return
        if self._server.alive:
            self._started_s = time.monotonic()
            self._note(f"ZooKeeper is back after {self._started_s - self._ended_s:.1f} s")
            self._ended_s = None
