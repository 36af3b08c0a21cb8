"""How Muster identifies itself to ZooKeeper, and who else may read and change its nodes.

Muster's identities are the digest of a user and a password and, over TLS, the certificate. A protected node may be
changed by the identities of the session that created it, and read by anyone; the nodes below :data:`SENSITIVE` may not
even be read by anyone else. This is what Kafka does (``ZkData.defaultAcls``), which has one more exception.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from muster.placement.zookeeper.ensemble import InvalidEnsemble, read_ensemble

SENSITIVE = (
    "/config/users",
    "/config/brokers",
    "/kafka-acl",
    "/kafka-acl-changes",
    "/kafka-acl-extended",
    "/kafka-acl-extended-changes",
    "/login_secret",
)
"""Nodes that hold password hashes, policy, or a key of logins. Kafka lets anyone read its ACLs."""

OPEN: tuple[ACL, ...] = tuple(OPEN_ACL_UNSAFE)
READABLE: tuple[ACL, ...] = (*CREATOR_ALL_ACL, *READ_ACL_UNSAFE)
PRIVATE: tuple[ACL, ...] = tuple(CREATOR_ALL_ACL)


def protected(path: str) -> tuple[ACL, ...]:
    """Return the ACL of a protected node; ``path`` without chroot."""
    is_sensitive = path.startswith(SENSITIVE) and any(path == one or path.startswith(f"{one}/") for one in SENSITIVE)
    return PRIVATE if is_sensitive else READABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How a client of ZooKeeper connects. Picklable; holds paths of secrets, no secret."""

    credentials_file: str | None = None
    """Its only line is ``USER:PASSWORD``; None: Muster has no digest."""
    set_acl: bool = False
    """Whether the nodes that are created are protected."""
    use_tls: bool = False
    certificate_file: str | None = None
    """PEM, the certificate and its key; None: Muster has no certificate."""
    authorities_file: str | None = None
    """PEM, the certificates that the server's must be signed with; None: those of the system."""
    check_hostname: bool = True
    ensemble_file: str | None = None
    """File with the servers of Muster's own ensemble, which may move; None: they are those of the connect string."""

    def hosts(self) -> str | None:
        """Return the connect string of Muster's own ensemble as it is now; None without one, or without its file."""
        try:
            ensemble = read_ensemble(Path(self.ensemble_file)) if self.ensemble_file is not None else None
        except InvalidEnsemble:
            return None
        return None if ensemble is None else ensemble.hosts

    def acl_of(self, path: str) -> tuple[ACL, ...]:
        """Return the ACL of a new node; ``path`` without chroot."""
        return protected(path) if self.set_acl else OPEN

    def options(self) -> dict[str, Any]:
        """Arguments of KazooClient.

        Raises ValueError if the file of credentials cannot be used; without its content.
        """
        digest = (
            {"auth_data": [("digest", read_credentials(Path(self.credentials_file)))]} if self.credentials_file else {}
        )
        return {"use_ssl": self.use_tls, **digest}

    def tls_context(self) -> ssl.SSLContext:
        """For one connection, with the files as they are now.

        Raises ValueError, naming the file that cannot be used.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.check_hostname
        if self.authorities_file is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        else:
            with _usable(self.authorities_file, "certificates of authorities"):
                context.load_verify_locations(self.authorities_file)
        if self.certificate_file is not None:
            with _usable(self.certificate_file, "a certificate with its key, unencrypted"):
                context.load_cert_chain(self.certificate_file, password="")  # without one, OpenSSL prompts for it
        return context


ANYONE = Access()
"""No identity, and nodes that anyone may change."""


@contextlib.contextmanager
def _usable(file: str, content: str) -> Iterator[None]:
    try:
        yield
    except ssl.SSLError:
        raise ValueError(f"{file}, for TLS to ZooKeeper, is no PEM file with {content}") from None
    except OSError as error:
        raise ValueError(f"{file}, for TLS to ZooKeeper, cannot be read: {error.strerror}") from None


def read_credentials(path: Path) -> str:
    """Return ``USER:PASSWORD`` of a file of credentials. Raises ValueError, without its content."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ValueError(f"ZooKeeper's credentials in {path} cannot be read: {why}") from None
    user, _, password = text.partition(":")
    if not user or not password or "\n" in text:
        raise ValueError(f"ZooKeeper's credentials in {path} are not one line USER:PASSWORD")
    return text
