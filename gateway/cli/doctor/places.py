"""Checks of the storage, the ports and the addresses."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

from muster.actors.config import MusterConfig
from muster.actors.runtime.storage.mounts import KNOWN_TO_BE_FIT, concerns, mount_of
from muster.actors.runtime.storage.trials import check
from muster.gateway.cli.doctor.findings import Finding, failed, from_error, ok, warning
from muster.gateway.cli.lifecycle.ports import Ports
from muster.gateway.cli.storage import directory as storage_directory
from muster.gateway.client.errors import MusterError
from muster.placement.host_port import host_port

_LOOPBACK = "127.0.0.1"
_CONNECT_S = 2.0
_SCARCE, _TOO_SCARCE = 0.1, 0.02


def bucket(uri: str) -> Iterator[Finding]:
    """Check that the bucket keeps its promises, with the credentials of this process."""
    from muster.gateway.cli.storage.bucket import findings_of

    try:
        findings = findings_of(uri, thorough=False)
    except MusterError as error:
        yield from_error("bucket", error)
        return
    broken = [f"{each.promise.title}: {each.problem}" for each in findings if each.problem is not None]
    if broken:
        yield failed("bucket", "; ".join(broken), f"muster storage check {uri} shows what was tried")
    else:
        yield ok("bucket", f"{uri} keeps {', '.join(each.promise.title for each in findings)}")


def storage(path: Path, *, shared: bool) -> Iterator[Finding]:
    """Check that the storage exists, can be written, keeps its promises (a real fsync, lock and rename), and has
    room."""
    directory = path
    while not directory.exists() and directory != directory.parent:
        directory = directory.parent
    said = f"{path}" if directory == path else f"{path} does not exist yet; {directory} is checked"
    if not directory.is_dir():
        yield failed("storage", f"{directory} is no directory", "choose another with --storage")
        return
    try:
        findings = check(directory)
        if path == directory and (path / "meta.properties").exists():
            storage_directory.cluster_id(path)
        is_unfinished = storage_directory.unfinished_restore(path).exists()
    except OSError as error:
        yield failed(
            "storage",
            f"{directory} cannot be written: {error.strerror}",
            "make it writable for this user, or choose another with --storage",
        )
        return
    except MusterError as error:
        yield from_error("storage", error)
        return
    if is_unfinished:
        yield failed("storage", f"a restore into {path} has not ended", "remove the directory and restore again")
    else:
        yield ok("storage", said)
    broken = [f"{finding.promise.title}: {finding.problem}" for finding in findings if finding.problem]
    if broken:
        yield failed("storage promises", "; ".join(broken), f"use one that is known to be fit: {KNOWN_TO_BE_FIT}")
    else:
        names = ", ".join(finding.promise.title for finding in findings)
        yield ok("storage promises", f"kept: {names}")
    yield from _file_system(directory, shared=shared)
    usage = shutil.disk_usage(directory)
    yield room(usage.free, usage.total)


def _file_system(directory: Path, *, shared: bool) -> Iterator[Finding]:
    mount = mount_of(directory)
    notes = concerns(mount, shared=shared) if mount else []
    for note in notes:
        yield warning("file system", f"{mount}: {note}", f"use one that is known to be fit: {KNOWN_TO_BE_FIT}")
    if not notes:
        yield ok("file system", str(mount or "unknown"))


def room(free: int, total: int) -> Finding:
    """Check the room in a file system, in bytes."""
    said = f"{free >> 20} MiB of {total >> 20} MiB are free"
    mend = "free some, enlarge the volume, or lower log.retention.bytes"
    if free < _TOO_SCARCE * total:
        return failed("free space", said, mend)
    if free < _SCARCE * total:
        return warning("free space", said, mend)
    return ok("free space", said)


def ports(config: MusterConfig, *, on_cluster: bool) -> Iterator[Finding]:
    """Check that the ports of a Muster that does not run are free on this node."""
    count = 1 if on_cluster else config.gateway_count or 1
    default = "" if on_cluster else _LOOPBACK
    listeners = config.all_listeners
    metrics = config.first_metrics_port
    wanted = [(f"port {each.name}", each.host or default, each.port) for each in listeners]
    held = Ports()
    try:
        for name, host, port in (*wanted, ("port of /metrics", listeners[0].host or default, metrics)):
            if port == 0:
                yield ok(name, "a free one is chosen")
                continue
            try:
                taken = held.take(host, port, count, "choose another port, or end that process")
            except MusterError as error:
                yield from_error(name, error)
            else:
                yield ok(name, f"{', '.join(map(str, taken))} free on {host or 'all interfaces'}")
    finally:
        held.release()


def advertised(config: MusterConfig) -> Iterator[Finding]:
    """Check that the advertised hosts are known by name here."""
    for listener in config.all_listeners:
        name = listener.advertised.host if listener.advertised is not None else None
        if name is None or "{" in name:
            continue
        try:
            socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except OSError as error:
            yield failed(
                f"advertised {listener.name}",
                f"{name} is not known here: {error.strerror or error}",
                "add it to the DNS or /etc/hosts, or change advertised.listeners",
            )
        else:
            yield ok(f"advertised {listener.name}", f"{name} is known")


def reachable(addresses: Iterable[str]) -> Iterator[Finding]:
    """Check that the gateways of a running Muster accept connections at their advertised addresses."""
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
        except OSError as error:
            yield failed(
                "advertised",
                f"{host_port(host.strip('[]'), int(port))} cannot be reached from here: {error.strerror or error}",
                "open the firewall, or change advertised.listeners to an address that clients reach",
            )
        else:
            yield ok("advertised", f"{address} accepts connections")


def private(path: Path, what: str) -> Iterator[Finding]:
    """Check that only its owner can read a file with a secret."""
    try:
        mode = path.stat().st_mode & 0o077
    except OSError as error:
        yield failed(
            what, f"{path} cannot be read: {error.strerror}", "put the file in its place, for this user to read"
        )
        return
    if mode:
        yield warning(what, f"{path} can be read by other users", f"chmod 600 {path}")
    else:
        yield ok(what, f"only its owner can read {path}")
