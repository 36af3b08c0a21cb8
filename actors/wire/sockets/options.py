"""Options of the sockets between nodes, and TLS on them.

Key and certificate of that TLS are derived from the cluster's secret, so that every process of the cluster makes the
same ones and trusts no other. The proof of the secret (:mod:`muster.actors.wire.internal.envelope`) follows inside.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_INFO = b"muster internal TLS 1"
_NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "muster")])
_HANDSHAKE_S = 5.0
_RETRY_S = 1.0
_FROM, _UNTIL = datetime(2000, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)


def keep_alive(connection: socket.socket) -> None:
    """Detect within some 10 s that the other node is cut off, in which case no reset arrives."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 4)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 2)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 10_000)


@lru_cache(maxsize=8)
def internal_tls(secret: bytes, *, is_server: bool) -> ssl.SSLContext:
    """TLS 1.3 between the processes of the cluster with that secret; both sides present the same certificate."""
    key = Ed25519PrivateKey.from_private_bytes(HKDF(hashes.SHA256(), 32, salt=None, info=_INFO).derive(secret))
    certificate = _certificate(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificate.decode())
    load_pem(
        context,
        certificate
        + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )
    return context


class TlsListener:
    """Accepts connections with TLS. Unlike asyncio's server, it reports handshakes that fail."""

    def __init__(
        self,
        host: str,
        port: int,
        context: ssl.SSLContext,
        accept: Callable[[], asyncio.Protocol],
        failed: Callable[[str, OSError], None],
    ) -> None:
        """Listen, from the next turn of the running event loop on. Raises OSError if it cannot.

        ``accept`` makes the protocol of each connection; ``failed`` gets the host of one without a handshake, and why.
        """
        self._listening = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=100
        )
        self._listening.setblocking(False)
        self._context, self._protocol, self._failed = context, accept, failed
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._task = self._loop.create_task(self._accept())

    @property
    def sockets(self) -> tuple[socket.socket]:
        """Listening socket; asyncio.Server has the same property."""
        return (self._listening,)

    def close(self) -> None:
        """Listen no more, and give up handshakes that have not ended. Connections stay."""
        for task in (self._task, *self._handshakes):
            task.cancel()
        self._listening.close()

    async def _accept(self) -> None:
        while True:
            try:
                connection, (host, *_) = await self._loop.sock_accept(self._listening)
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    await asyncio.sleep(_RETRY_S)
                continue
            task = self._loop.create_task(self._shake_hands(connection, host))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, connection: socket.socket, host: str) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._protocol, connection, ssl=self._context, ssl_handshake_timeout=_HANDSHAKE_S
            )
        except OSError as error:
            self._failed(host, error)
            with contextlib.suppress(OSError):
                connection.close()


def _certificate(key: Ed25519PrivateKey) -> bytes:
    """Return always the same bytes: so is an Ed25519 signature."""
    builder = x509.CertificateBuilder().subject_name(_NAME).issuer_name(_NAME).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(_FROM).not_valid_after(_UNTIL)
    return builder.sign(key, None).public_bytes(serialization.Encoding.PEM)


def load_pem(context: ssl.SSLContext, pem: bytes) -> None:
    """Have the context present these certificates with this key. Raises SSLError.

    Python's ssl takes a path only: that of a file in memory, which no other user can open.
    """
    handle = os.memfd_create("muster-tls", os.MFD_CLOEXEC)
    try:
        os.write(handle, pem)
        context.load_cert_chain(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)
