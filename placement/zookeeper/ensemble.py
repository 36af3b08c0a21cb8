"""The servers of the ensemble that Muster runs itself: their file in the shared storage, and what each reports."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from muster.placement.host_port import host_port

SERVERS = 3
_QUERY_S = 2.0
_ID = re.compile(r"^server\.(\d+)=", re.MULTILINE)
_MODE = re.compile(r"^Mode: (\w+)$", re.MULTILINE)


class InvalidEnsemble(ValueError):
    """The file of the ensemble cannot be read; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One server. ``address`` is that of its node; the three ports are bound there alone."""

    id: int
    """ZooKeeper's ``myid``; that of a server that was replaced is not used again."""
    address: str
    client_port: int
    quorum_port: int
    election_port: int

    @property
    def hosts(self) -> str:
        """Connect string of this server alone."""
        return host_port(self.address, self.client_port)

    @property
    def line(self) -> str:
        """Its line in a dynamic configuration, as in ``/zookeeper/config``."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        ports = f"{self.quorum_port}:{self.election_port}:participant"
        return f"server.{self.id}={host}:{ports};{host}:{self.client_port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ensemble:
    """All servers, by id, and whether they are yet to be founded.

    Only a server that founds the ensemble may begin with empty data: any other has lost what it acknowledged, and must
    not vote before it has a leader's data.
    """

    id: str
    """Chosen when it is made: data of an earlier ensemble on the same nodes are not its own."""
    servers: tuple[Server, ...]
    is_new: bool = False

    @property
    def hosts(self) -> str:
        """Connect string."""
        return ",".join(server.hosts for server in self.servers)

    @property
    def majority(self) -> int:
        return len(self.servers) // 2 + 1

    def server(self, number: int) -> Server:
        """Return the server with that id."""
        return next(server for server in self.servers if server.id == number)

    def at(self, address: str) -> Server | None:
        """Return the server of the node with that address, if any."""
        return next((server for server in self.servers if server.address == address), None)

    def replaced(self, number: int, address: str) -> Ensemble:
        """Return the ensemble with a new server, on the node with that address, in place of the one with that id.

        It has an id of its own: should the former one still run somewhere, it is no part of any majority.
        """
        new = replace(self.server(number), id=max(each.id for each in self.servers) + 1, address=address)
        return replace(self, servers=(*(each for each in self.servers if each.id != number), new))

    def encode(self) -> str:
        """Return the content of the file."""
        return json.dumps(asdict(self), indent=2) + "\n"

    def lacking(self, config: str) -> list[str]:
        """Return the lines of the servers that a dynamic configuration does not have."""
        known = {line.strip() for line in config.splitlines()}
        return [server.line for server in self.servers if server.line not in known]

    def superfluous(self, config: str) -> list[str]:
        """Return the ids of the servers that a dynamic configuration has beyond these."""
        own = {str(server.id) for server in self.servers}
        return [found for found in _ID.findall(config) if found not in own]


def ensemble_file(folder: Path) -> Path:
    """Return the file of the ensemble in ``zookeeper`` of the storage."""
    return folder / "ensemble.json"


def read_ensemble(file: Path) -> Ensemble | None:
    """Return the ensemble; None without the file. Raises InvalidEnsemble."""
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
        return Ensemble(**{**fields, "servers": tuple(Server(**each) for each in fields["servers"])})
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InvalidEnsemble(f"{file} is damaged, or cannot be read ({error})") from error


def modes(servers: Iterable[Server]) -> Mapping[int, str | None]:
    """Query all servers at once; each one's mode by id: ``leader``, ``follower``; None: it does not serve."""
    found = list(servers)
    with ThreadPoolExecutor(max(1, len(found))) as pool:
        return dict(zip((each.id for each in found), pool.map(_mode, found), strict=True))


def _mode(server: Server) -> str | None:
    try:
        with socket.create_connection((server.address, server.client_port), timeout=_QUERY_S) as peer:
            peer.sendall(b"srvr")
            response = b"".join(iter(lambda: peer.recv(4096), b""))
    except OSError:
        return None
    found = _MODE.search(response.decode("utf-8", "replace"))
    return found[1] if found else None
