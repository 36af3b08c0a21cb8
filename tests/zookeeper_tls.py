"""A real ZooKeeper that serves TLS alone, asks for certificates, and knows clients by certificate and by digest."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from muster.actors.runtime.java import find_java
from muster.actors.runtime.zookeeper import class_path
from muster.placement.zookeeper.access import Access
from pytest_muster.bound import bound
from tests.certificates import Authority
from tests.zookeeper_fixture import eventually

_START_S = 100
_CONFIG = """dataDir={folder}/data
secureClientPortAddress=127.0.0.1
secureClientPort={port}
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider
ssl.keyStore.location={folder}/server.pem
ssl.trustStore.location={folder}/clients-ca.pem
ssl.clientAuth={client_auth}
ssl.protocol=TLSv1.3
ssl.enabledProtocols=TLSv1.2,TLSv1.3
ssl.ciphersuites=TLS_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
tickTime=1000
admin.enableServer=false
4lw.commands.whitelist=srvr
"""
SECRET = "s3cret-of-zookeeper"


@dataclass
class TlsZooKeeper:
    """Its files, and how a client reaches it: ``muster`` may, with certificate and digest."""

    folder: Path
    port: int
    authority: Authority
    """It signed the server's certificate and those of clients."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def hosts(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def muster(self) -> Access:
        """With certificate and digest; protects what it creates."""
        return Access(
            credentials_file=str(self.folder / "credentials"),
            set_acl=True,
            use_tls=True,
            certificate_file=str(self.folder / "muster.pem"),
            authorities_file=str(self.folder / "ca.pem"),
        )

    @property
    def properties(self) -> dict[str, str]:
        """ZooKeeper's address and access, as properties of Muster."""
        access = self.muster
        return {
            "zookeeper.connect": self.hosts,
            "zookeeper.set.acl": "true",
            "zookeeper.credentials.file": str(access.credentials_file),
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.keystore.location": str(access.certificate_file),
            "zookeeper.ssl.truststore.location": str(access.authorities_file),
        }

    def start(self, *, client_auth: str = "need") -> None:
        """Start it, with ZooKeeper's ``ssl.clientAuth``; wait until it listens."""
        config = _CONFIG.format(folder=self.folder, port=self.port, client_auth=client_auth)
        (self.folder / "zoo.cfg").write_text(config)
        with (self.folder / "zookeeper.out").open("ab") as out:
            self.process = subprocess.Popen(
                bound(
                    [
                        *(str(find_java()), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                        *("-Dzookeeper.jmx.log4j.disable=true", "-Dzookeeper.preAllocSize=4096", "-cp", class_path()),
                        *("org.apache.zookeeper.server.ZooKeeperServerMain", str(self.folder / "zoo.cfg")),
                    ]
                ),
                stdout=out,
                stderr=out,
            )
        eventually(self._listens, f"ZooKeeper listens; its log: {self.folder}", within_s=_START_S)

    def _listens(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "zookeeper.out").read_text(errors="replace")[-4000:]
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port)).close()
            return True
        return False

    def kill(self) -> None:
        """SIGKILL; its port and its data stay."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def issue(self, name: str, authority: Authority | None = None) -> str:
        """Write a file with another client's certificate, of this authority; return it."""
        return str((authority or self.authority).issue(f"CN={name}").write(self.folder / f"{name}.pem"))


@contextlib.contextmanager
def tls_zookeeper(folder: Path) -> Iterator[TlsZooKeeper]:
    """Run a new one with its files in the folder, which is created."""
    folder.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    authority = Authority()
    for file in ("ca.pem", "clients-ca.pem"):
        authority.write(folder / file)
    authority.issue("CN=server").write(folder / "server.pem")
    (folder / "credentials").write_text(f"muster:{SECRET}\n")
    server = TlsZooKeeper(folder, port, authority)
    server.issue("muster")
    server.start()
    try:
        yield server
    finally:
        server.kill()
