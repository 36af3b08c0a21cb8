"""Checks of running parts: ZooKeeper, and the clocks of other machines."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import statistics
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from kazoo.exceptions import KazooException, NoNodeError

from muster.gateway.cli.doctor.findings import Finding, failed, ok, warning
from muster.placement.zookeeper.access import Access
from muster.placement.zookeeper.client import ZooKeeperClient, ZooKeeperUnreachable, connect
from muster.placement.zookeeper.ensemble import Ensemble, modes

_CONNECT_S = 5.0
_REFUSAL_S = 0.5
_MIN_VERSION = (3, 6)
"""The first with recursive watches (ZOOKEEPER-1416)."""
_SLOW_MS = 50.0
_SKEW_MS = 1_000.0
_MIN_SKEW_MS = 500.0
_PINGS = 10
_CLOCKS = "run chrony or ntpd on all machines"


def zookeeper(hosts: str, access: Access) -> Iterator[Finding]:
    """Check ZooKeeper: whether it responds, how fast, its version, and its clock."""
    try:
        zk = connect(hosts, access, timeout_s=_CONNECT_S)
    except ZooKeeperUnreachable as error:
        yield failed("zookeeper", str(error), "start it, or correct --zookeeper or zookeeper.ssl.*; check the firewall")
        return
    try:
        yield from _version(zk, hosts)
        yield from _latency(zk)
        yield from _clock(zk)
    except (KazooException, ZooKeeperUnreachable) as error:
        yield failed("zookeeper", f"{hosts}: {error or type(error).__name__}", "see its log, and its ACLs")
    finally:
        zk.shut()


def servers(ensemble: Ensemble) -> Iterator[Finding]:
    """Check the servers of Muster's own ensemble."""
    found = modes(ensemble.servers)
    away = [each.hosts for each in ensemble.servers if found[each.id] is None]
    said = f"{len(ensemble.servers) - len(away)} of {len(ensemble.servers)} serve"
    if not away:
        yield ok("zookeeper servers", said)
        return
    without = f"{said}, without {', '.join(away)}"
    mend = "start its node; if that is lost for good, muster zookeeper replace ADDRESS"
    if len(ensemble.servers) - len(away) < ensemble.majority:
        yield failed("zookeeper servers", f"{without}: there is no majority", "start their nodes")
    else:
        yield warning("zookeeper servers", f"{without}; if another one is lost, there is no majority", mend)


def _version(zk: ZooKeeperClient, hosts: str) -> Iterator[Finding]:
    try:
        said = str(zk.command(b"srvr"))
    except (KazooException, OSError):
        said = ""
    found = re.search(r"version: (\d+)\.(\d+)\.(\d+)", said)
    if found is None:
        yield ok("zookeeper", f"{hosts} responds; its version is not shown (4lw.commands.whitelist)")
    elif (int(found[1]), int(found[2])) < _MIN_VERSION:
        yield failed("zookeeper", f"version {found[0][9:]}", f"use {_MIN_VERSION[0]}.{_MIN_VERSION[1]} or later")
    else:
        yield ok("zookeeper", f"{hosts}, version {found[0][9:]}")


def _latency(zk: ZooKeeperClient) -> Iterator[Finding]:
    taken_ms = []
    for _ in range(_PINGS):
        began = time.perf_counter()
        zk.call(zk.exists_async, "/")
        taken_ms.append((time.perf_counter() - began) * 1000)
    median_ms = statistics.median(taken_ms)
    said = f"{median_ms:.1f} ms for a read (median of {_PINGS})"
    if median_ms > _SLOW_MS:
        yield warning("zookeeper latency", said, "place it near Muster; give its transaction log a disk of its own")
    else:
        yield ok("zookeeper latency", said)


def _clock(zk: ZooKeeperClient) -> Iterator[Finding]:
    """Check the clock by the time that the server gives to a node, which ends with this session."""
    path = f"/muster-doctor-{uuid.uuid4()}"
    before_ms = time.time() * 1000
    try:
        zk.call(zk.create_async, path, b"", ephemeral=True)
    except NoNodeError:
        yield ok("clock of zookeeper", f"unknown: {zk.chroot} does not exist yet; muster up creates it")
        return
    after_ms = time.time() * 1000
    stat = zk.call(zk.exists_async, path)
    yield skew("clock of zookeeper", stat.ctime, before_ms, after_ms)


def skew(check: str, there_ms: float, before_ms: float, after_ms: float, resolution_ms: float = 1) -> Finding:
    """Judge another machine's time, read between two times of this one."""
    off_ms = max(0.0, before_ms - there_ms - resolution_ms, there_ms - after_ms)
    if off_ms > _SKEW_MS:
        return warning(check, f"at least {off_ms / 1000:.1f} s away from this machine's", _CLOCKS)
    return ok(check, "as here" if off_ms <= _MIN_SKEW_MS else f"{off_ms / 1000:.1f} s away")


def clocks(metrics_urls: Iterable[str]) -> Iterator[Finding]:
    """Check the clocks of the gateways' machines, by the header Date, which has seconds."""
    for url in metrics_urls:
        address = urlsplit(url).netloc
        before_ms = time.time() * 1000
        try:
            there_ms = parsedate_to_datetime(_date_of(url)).timestamp() * 1000
        except ssl.SSLError:
            yield ok(f"clock of {address}", "unknown: the HTTP port requires a certificate")
        except (OSError, HTTPException, ValueError) as error:
            said = f"{address} does not respond: {str(error) or type(error).__name__}"
            yield warning("gateway", said, "see run/log/gateway-<id>.log")
        else:
            yield skew(f"clock of {address}", there_ms, before_ms, time.time() * 1000, resolution_ms=1000)


def turned_away(status: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the clients with a protocol that is not served."""
    clients = status.get("clients_turned_away", [])
    for each in clients:
        said = f"{each['client_id']!r} at {each['host']} sends {each['api']} version {each['version']}"
        yield warning("client turned away", f"{said} ({each['times']} times)", each["mend"])
    if not clients:
        yield ok("clients", "none is turned away")


def _date_of(url: str) -> str:
    """Return the header Date of any response. Raises OSError, HTTPException, or ValueError if there is none."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection = HTTPConnection(host, port, timeout=_CONNECT_S)
    if parts.scheme == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent, and only a time is read
        connection = HTTPSConnection(host, port, timeout=_CONNECT_S, context=context)
    with contextlib.closing(connection):
        connection.connect()
        if isinstance(connection, HTTPSConnection):
            _meet_refusal(connection.sock)
        connection.request("GET", "/healthz")
        date = connection.getresponse().getheader("Date")
    if date is None:
        raise ValueError("its response has no Date")
    return date


def _meet_refusal(connection: socket.socket) -> None:
    """Raise SSLError if the server refuses the client, which TLS 1.3 reports behind the handshake.

    Nothing may be sent meanwhile: a reset would take the place of the reason.
    """
    connection.settimeout(_REFUSAL_S)
    with contextlib.suppress(TimeoutError):
        connection.recv(1)
    connection.settimeout(_CONNECT_S)
