"""Hosts out of namespaces, and the cluster of cluster.yaml on them, shared by all tests."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.chaos.journal import now_s
from tests.hosts import installing
from tests.hosts.cluster import Cluster
from tests.hosts.host import Host
from tests.hosts.load import Load
from tests.hosts.network import Network, NotPossible, refuse_unfit
from tests.hosts.report import Report
from tests.marks import mark_folder

BOX, CLIENTS, STORE = "box", "clients", "store"
ADDRESSES = {
    "head": "10.77.0.10",
    "w1": "10.77.0.11",
    "w2": "10.77.0.12",
    "w3": "10.77.0.13",
    "w4": "10.77.0.14",
    BOX: "10.77.0.100",
    CLIENTS: "10.77.0.101",
    STORE: "10.77.0.102",
}
"""``box`` runs `ray up`; ``w4`` joins later; ``store`` is for a ZooKeeper and a Redis that do not end with the head.
The tests and their clients are in the network of ``clients``.
"""
_TOOLS = (BOX, STORE)
_FIRST = ("w1", "w2", "w3")
_DISKS = installing.ROOT / ".cache" / "hosts"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_folder(items, __file__, "hosts")


@pytest.fixture(scope="session")
def packages() -> Path:
    """Fetch what hosts install, before the tests are in a network without a way to a registry."""
    try:
        refuse_unfit()
    except NotPossible as error:
        pytest.fail(f"make ring-hosts: {error}", pytrace=False)
    return installing.fetch()


@pytest.fixture(scope="session")
def network(packages: Path) -> Iterator[Network]:
    try:
        made = Network(ADDRESSES)
        with made, made.entered(CLIENTS):
            yield made
    except NotPossible as error:
        pytest.fail(f"make ring-hosts: {error}", pytrace=False)


@pytest.fixture(scope="session")
def hosts(network: Network, packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Host]]:
    """By name, all but ``w4`` running; the disks are removed at the end."""
    folder = tmp_path_factory.mktemp("hosts", numbered=False)
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    shutil.rmtree(_DISKS, ignore_errors=True)
    (folder / "storage").mkdir()
    base = installing.python_folder()
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, _DISKS, ignore_errors=True)
        made = {}
        for name, address in ADDRESSES.items():
            if name == CLIENTS:
                continue
            made[name] = Host(
                name=name,
                address=address,
                network=network,
                disk=_DISKS / name,
                storage=folder / "storage",
                authorized_key=key.with_suffix(".pub").read_text(),
                visible=[base, installing.ROOT, folder] if name in _TOOLS else [base, packages / "wheels"],
                environment={} if name in _TOOLS else installing.environment(packages),
            )
            made[name].install(ADDRESSES)
            undo.callback(made[name].power_off)
            if name not in _TOOLS:
                installing.give(packages, made[name].home)
            if name in ("head", *_TOOLS, *_FIRST):
                made[name].power_on()
        yield made


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, hosts: dict[str, Host]) -> Path:
    """With the key of all hosts and the directory that they share."""
    return tmp_path_factory.getbasetemp() / "hosts"


@pytest.fixture(scope="session")
def cluster(hosts: dict[str, Host], folder: Path) -> Cluster:
    """Not started: the first test does that."""
    made = Cluster(folder, folder / "key", hosts[BOX], hosts["head"], [hosts[name] for name in _FIRST])
    installing.build(folder)
    made.write()
    return made


@pytest.fixture(scope="session")
def report() -> Report:
    return Report()


@pytest.fixture(scope="session")
def load(cluster: Cluster, folder: Path) -> Iterator[Load]:
    """Clients from its first use to the end."""
    journals = folder / "journals"
    journals.mkdir()
    made = Load(journals, cluster.bootstrap)
    try:
        made.until_all_go(now_s())
        yield made
    finally:
        made.end()
