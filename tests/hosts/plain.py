"""Hosts that have this checkout's venv, so that nothing has to be installed."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.hosts.host import Host
from tests.hosts.installing import ROOT, python_folder
from tests.hosts.network import Network

CLIENTS = "clients"


@contextmanager
def plain_hosts(
    folder: Path, addresses: Mapping[str, str], clients: str, *, share: bool = True
) -> Iterator[dict[str, Host]]:
    """Yield running hosts by name. The test is in their network meanwhile, at the address ``clients``.

    ``folder``, which exists, gets the key of all hosts, the directory ``storage`` that they share, and their disks.
    Without ``share`` each has a directory of its own in that place, ``storage/<name>``.
    """
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    (folder / "storage").mkdir()
    names = {**addresses, CLIENTS: clients}
    with ExitStack() as undo:
        network = undo.enter_context(Network(names))
        undo.enter_context(network.entered(CLIENTS))
        made = {}
        for name, address in addresses.items():
            storage = folder / "storage" if share else folder / "storage" / name
            storage.mkdir(exist_ok=True)
            host = Host(
                name=name,
                address=address,
                network=network,
                disk=folder / name,
                storage=storage,
                authorized_key=key.with_suffix(".pub").read_text(),
                visible=[python_folder(), ROOT, Path(sys.prefix).resolve()],
                environment={"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT)},
            )
            host.install(names)
            undo.callback(host.power_off)
            (host.home / "muster-venv").symlink_to(sys.prefix)
            host.power_on()
            made[name] = host
        yield made


def give_token(hosts: Iterable[Host]) -> None:
    """Give the hosts the token of one Ray."""
    token = secrets.token_hex(32)
    for host in hosts:
        file = host.home / ".ray/auth_token"
        file.parent.mkdir()
        file.touch(mode=0o600)
        file.write_text(token)
