"""The embedded ZooKeeper: a real server from the jars that pyspark ships, run as a child process.

The child must not outlive its parent, not even after a ``kill -9``. Linux has a parent-death signal
(``PR_SET_PDEATHSIG``) for that, with two traps. The child has to arm it itself between fork and exec; a
``preexec_fn`` may deadlock in a process with threads, so a short Python program arms it and then
*becomes* java by exec, which keeps the setting. And the signal is sent when the *thread* that forked ends, so
a dedicated thread forks, and does nothing but wait for the child. The signal is SIGKILL: ZooKeeper's
transaction log is made for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import secrets
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from muster.actors.runtime.bound import bound
from muster.actors.runtime.files import write_atomically
from muster.actors.runtime.java import JavaNotFound, find_java, java_environment
from muster.placement.host_port import host_port
from muster.placement.zookeeper.access import Access
from muster.placement.zookeeper.client import ZooKeeperUnreachable, connect
from muster.placement.zookeeper.ensemble import ensemble_file
from muster.placement.zookeeper.securing import is_secure, secure_whole

__all__ = ["EmbeddedZooKeeper", "ZooKeeperStartError", "find_java", "java_environment"]

log = logging.getLogger(__name__)

MAX_SESSION_TIMEOUT_MS = 60_000
_TICK_MS = 1000
_PORT_ATTEMPTS = 5
_LOG_JARS = ("slf4j-api-*", "log4j-*")
_JARS = ("zookeeper-*", "netty-*", "metrics-core-*", "commons-cli-*", "snappy-java-*")
_OTHER_LOGGING = ("slf4j-", "logback-", "log4j-", "reload4j-")
"""Jars of a ZooKeeper's own logging: that of pyspark's jars is configured here."""
_JVM = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",  # statistics for other processes, taken 20 times a second
    "-XX:+ExitOnOutOfMemoryError",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dlog4j2.disable.jmx=true",
    "-Dzookeeper.preAllocSize=4096",
)
_LOGGING = """status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {file}
appender.file.filePattern = {file}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %c{{1}}: %m %throwable{{1}}%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
"""


class ZooKeeperStartError(RuntimeError):
    """The embedded server could not be started; the message is one line and says how to fix that."""


class ZooKeeperEndedAtStart(ZooKeeperStartError):
    """The server ended while it started, perhaps because of its data; the message has the end of its log."""


class _Ended(ZooKeeperUnreachable):
    pass


class _PortTaken(ZooKeeperStartError):
    pass


class EmbeddedZooKeeper:
    """A running standalone ZooKeeper server, created by :meth:`start`; a context manager that stops it."""

    def __init__(self, data_dir: Path, host: str, port: int, jars: str) -> None:
        self.data_dir = data_dir
        self.host = host
        self.port = port
        self._jars = jars
        self._process: subprocess.Popen[bytes] | None = None
        self._should_run = False
        self._exited = threading.Event()
        self._launching = threading.Lock()
        self._stopped = threading.Event()

    @classmethod
    def start(
        cls,
        data_dir: str | os.PathLike[str],
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        timeout_s: float = 30,
        lib: str | None = None,
    ) -> Self:
        """Start a server on the data in ``data_dir`` (created if missing); returns once it serves sessions.

        ``port`` 0 means a free one. ``host`` is the local address to bind, and to use in :attr:`hosts`.
        ``lib``: a folder with the jars of another ZooKeeper than pyspark's.
        Raises ZooKeeperStartError if the port is taken, the data cannot be written or are in use by another
        server, there is no Java, or the server did not serve within ``timeout_s`` (with the end of its log).
        """
        directory = Path(data_dir).absolute()
        with _exclusive(directory) as lock:
            for _ in range(_PORT_ATTEMPTS):
                server = cls(directory, host, port or _free_port(host), class_path(lib))
                try:
                    server._launch(lock, time.monotonic() + timeout_s)
                except _PortTaken:
                    if port:
                        raise
                    continue
                return server
        raise ZooKeeperStartError(f"found no free port on {host} for ZooKeeper in {_PORT_ATTEMPTS} attempts")

    def restart(self, timeout_s: float = 30) -> None:
        """Start the server again, on its port, after it has ended by itself. No effect after :meth:`stop`.

        Raises ZooKeeperStartError as for :meth:`start`.
        """
        with self._launching, _exclusive(self.data_dir) as lock:
            if not self._stopped.is_set():
                self._launch(lock, time.monotonic() + timeout_s)

    def secure(self, *, timeout_s: float = 30) -> Access:
        """Let only who reads the file of credentials change nodes. Returns the access of those; the file is kept.

        A tree that was open is protected first, which takes time for each of its nodes. Raises ZooKeeperStartError if
        the file cannot be written, ZooKeeperUnreachable if the server does not respond.
        """
        access = with_credentials(self.data_dir)
        protect(self.hosts, access, timeout_s)
        return access

    @property
    def hosts(self) -> str:
        """Connect string, ``host:port``."""
        return host_port(self.host, self.port)

    @property
    def pid(self) -> int:
        """Process id of the server."""
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the server process runs."""
        return self._process is not None and not self._exited.is_set()

    @property
    def is_lost(self) -> bool:
        """Whether the server process has ended by itself."""
        return not self.alive and not self._stopped.is_set()

    def stop(self, timeout_s: float = 10) -> None:
        """Stop the server: SIGTERM, then SIGKILL after ``timeout_s``. The data stay. May be called again."""
        self._stopped.set()
        with self._launching:
            self._end(timeout_s)

    def _end(self, timeout_s: float) -> None:
        self._should_run = False
        for kind, wait_s in ((signal.SIGTERM, timeout_s), (signal.SIGKILL, None)):
            if not self.alive:
                return
            assert self._process is not None
            self._process.send_signal(kind)
            self._exited.wait(wait_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _launch(self, lock: IO[str], deadline: float) -> None:
        self._should_run = False
        log_file = self.data_dir / "zookeeper.log"
        log_start = log_file.stat().st_size if log_file.exists() else 0
        try:
            self._spawn(self._command(), lock)
            self._await_service(deadline)
            self._should_run = True
        except BaseException as error:
            self._end(timeout_s=2)
            if not isinstance(error, ZooKeeperUnreachable):
                raise
            tail = _tail(log_file, log_start) or _tail(self.data_dir / "zookeeper.out", 0)
            if "BindException" in tail:
                reason = tail.rpartition("BindException")[2].lstrip(": ").split(" | ")[0]
                raise _PortTaken(f"ZooKeeper cannot listen on {self.hosts}: {reason}") from None
            kind = ZooKeeperEndedAtStart if isinstance(error, _Ended) else ZooKeeperStartError
            raise kind(f"ZooKeeper on {self.hosts} did not start: {error}; its log: {tail}") from None

    def _command(self) -> list[str]:
        """Write the configuration, and return the command line of java. Raises ZooKeeperStartError."""
        client = {"clientPortAddress": self.host, "clientPort": self.port}
        return java_command(self.data_dir, client, "server.ZooKeeperServerMain", self._jars)

    def _spawn(self, command: list[str], lock: IO[str]) -> None:
        started: list[subprocess.Popen[bytes] | OSError] = []
        ready = threading.Event()
        exited = self._exited = threading.Event()

        def run() -> None:
            become = bound(command, signal.SIGKILL)
            try:
                with (self.data_dir / "zookeeper.out").open("wb") as out:
                    process = subprocess.Popen(
                        become,
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=out,
                        pass_fds=[lock.fileno()],
                        process_group=0,  # a Ctrl-C in the terminal must not stop ZooKeeper: it is stopped last
                    )
            except OSError as error:
                exited.set()
                started.append(error)
                return
            else:
                started.append(process)
            finally:
                ready.set()
            code = process.wait()
            exited.set()
            if self._should_run:
                log.error("ZooKeeper on %s ended by itself (exit code %s), see %s", self.hosts, code, self.data_dir)

        threading.Thread(target=run, name="embedded-zookeeper", daemon=True).start()
        ready.wait()
        if isinstance(started[0], OSError):
            raise ZooKeeperStartError(f"cannot run ZooKeeper: {started[0]}") from started[0]
        self._process = started[0]

    def _await_service(self, deadline: float) -> None:
        while not self._responds():
            if self._exited.wait(0.05):
                raise _Ended("the process ended")
            if self._stopped.is_set():
                raise ZooKeeperUnreachable("it is being stopped")
            if time.monotonic() > deadline:
                raise ZooKeeperUnreachable("it did not answer in time")
        self._confirm(deadline)

    def _confirm(self, deadline: float) -> None:
        """Raise ZooKeeperUnreachable unless the server, which responds, gives a session."""
        connect(self.hosts, timeout_s=max(1.0, deadline - time.monotonic())).shut()

    def _responds(self) -> bool:
        """Whether *this* server serves there: another may have bound the port after it was found to be free."""
        return f"dataDir={self.data_dir}{os.sep}".encode() in self._conf()

    def _conf(self) -> bytes:
        """Return the response to ``conf``; empty without one."""
        try:
            with socket.create_connection((self.host, self.port), timeout=1) as peer:
                peer.sendall(b"conf")
                return b"".join(iter(lambda: peer.recv(4096), b""))
        except OSError:
            return b""


def embedded_access(data_dir: Path) -> Access:
    """How Muster's own ZooKeeper with its data, or the file of its ensemble, there is used once it is secured."""
    ensemble = ensemble_file(data_dir)
    return Access(
        credentials_file=str(data_dir / "credentials"),
        set_acl=True,
        ensemble_file=str(ensemble) if ensemble.exists() else None,
    )


def with_credentials(folder: Path) -> Access:
    """Return the access with the credentials in that folder, made if there are none. Raises ZooKeeperStartError."""
    access = embedded_access(folder)
    credentials = Path(access.credentials_file or "")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        if not credentials.exists():
            write_atomically(credentials, f"muster:{secrets.token_hex(32)}\n")
    except OSError as error:
        raise ZooKeeperStartError(f"cannot protect {folder}: {error.strerror}") from error
    return access


def protect(hosts: str, access: Access, timeout_s: float) -> None:
    """Protect a tree that is open. Raises ZooKeeperUnreachable."""
    client = connect(hosts, access, timeout_s=timeout_s)
    try:
        if not is_secure(client):
            secure_whole(client)
    finally:
        client.shut()


@contextlib.contextmanager
def _exclusive(directory: Path) -> Iterator[IO[str]]:
    """Hold the directory's lock. The server inherits it, so it is held until the server has really ended."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "lock").open("a")
    except OSError as error:
        raise ZooKeeperStartError(
            f"cannot write ZooKeeper's data in {directory}: {error.strerror}; choose another storage directory"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ZooKeeperStartError(f"the ZooKeeper data in {directory} are in use by a running server") from None
        yield lock


def java_command(directory: Path, own: Mapping[str, object], main: str, jars: str) -> list[str]:
    """Write the configuration under ``directory``, with the server's ``own`` keys; return the command line of java.

    Raises ZooKeeperStartError.
    """
    config = directory / "zoo.cfg"
    logging_config = directory / "log4j2.properties"
    settings = {
        "tickTime": _TICK_MS,
        "maxSessionTimeout": MAX_SESSION_TIMEOUT_MS,
        "dataDir": directory,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
        "autopurge.snapRetainCount": 3,
        "autopurge.purgeInterval": 1,
        "4lw.commands.whitelist": "conf, srvr",
        **own,
    }
    try:
        config.write_text("".join(f"{key}={_property(value)}\n" for key, value in settings.items()))
        logging_config.write_text(_LOGGING.format(file=_property(directory / "zookeeper.log")))
        java = find_java()
    except OSError as error:
        raise ZooKeeperStartError(f"cannot write ZooKeeper's data in {directory}: {error.strerror}") from error
    except JavaNotFound as error:
        raise ZooKeeperStartError(str(error)) from error
    options = [*_JVM, f"-Dlog4j2.configurationFile={logging_config}", "-cp", jars]
    return [str(java), *options, f"org.apache.zookeeper.{main}", str(config)]


def _property(value: object) -> str:
    """Return the value as text for a Java properties file: no bare backslash, and ASCII only."""
    units = str(value).replace("\\", "\\\\").encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if code < 128 else f"\\u{code:04x}" for code in codes)


def class_path(lib: str | None = None) -> str:
    """ZooKeeper and what it needs; all of Spark's jars would work, too, but double the start-up time.

    ``lib``: where ZooKeeper is, instead of among Spark's jars. Raises ZooKeeperStartError if it is not there.
    """
    spec = find_spec("pyspark")
    spark = Path(spec.origin).parent / "jars" if spec and spec.origin else Path("pyspark/jars")
    found = _jars(spark, _LOG_JARS)
    if lib is None:
        found += _jars(spark, _JARS)
    else:
        found += [jar for jar in _jars(Path(lib), ("*",)) if not jar.name.startswith(_OTHER_LOGGING)]
    if not any(re.fullmatch(r"zookeeper-\d.*", jar.name) for jar in found):
        mend = "pip install pyspark" if lib is None else "zookeeper.server.lib is the folder lib of a distribution"
        raise ZooKeeperStartError(f"no ZooKeeper among the jars in {spark if lib is None else lib}: {mend}")
    return os.pathsep.join(map(str, found))


def _jars(folder: Path, patterns: Sequence[str]) -> list[Path]:
    return [jar for pattern in patterns for jar in sorted(folder.glob(f"{pattern}.jar"))]


def _free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.bind((host, 0))
            return int(probe.getsockname()[1])
    except OSError as error:
        raise ZooKeeperStartError(f"ZooKeeper cannot listen on {host}: {error.strerror}") from error


def _tail(file: Path, start: int, lines: int = 3) -> str:
    """Return the last lines written after byte ``start``, as one line."""
    try:
        with file.open("rb") as written:
            written.seek(start)
            text = written.read().decode(errors="replace")
    except OSError:
        return ""
    return " | ".join([line.strip() for line in text.splitlines() if line.strip()][-lines:])
