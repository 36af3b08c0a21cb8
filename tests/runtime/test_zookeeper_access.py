"""Who may read and change Muster's nodes in a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from kazoo.exceptions import NoAuthError

from muster.gateway.cli.errors import CliError
from muster.gateway.cli.lifecycle.zookeeper import check_zookeeper
from muster.gateway.cli.main import cli
from muster.placement.security.entity_registry import LOGIN_SECRET, EntityRegistry
from muster.placement.zookeeper.access import OPEN, SENSITIVE, Access, protected
from muster.placement.zookeeper.client import ZooKeeperClient, ZooKeeperUnreachable, connect
from muster.placement.zookeeper.securing import is_secure, nodes

SECRET = "s3cret-of-zookeeper"


@pytest.fixture
def access(tmp_path: Path) -> Access:
    file = tmp_path / "credentials"
    file.write_text(f"muster:{SECRET}\n")
    return Access(credentials_file=str(file), set_acl=True)


@pytest.fixture
def muster(zk_hosts: str, access: Access) -> Iterator[ZooKeeperClient]:
    client = connect(zk_hosts, access, timeout_s=10)
    yield client
    client.shut()


def _ways(zk: ZooKeeperClient) -> dict[str, Callable[[str], object]]:
    """Everything that creates a node."""
    return {
        "create": lambda path: zk.call(zk.create_async, path, b""),
        "create with parents": lambda path: zk.call(zk.create_async, path, b"", makepath=True),
        "ensure_path": lambda path: zk.call(zk.ensure_path_async, path),
        "commit": lambda path: zk.commit([("create", path, b"")]),
        "commit_each": lambda path: list(zk.commit_each([[("create", path, b"")]])),
    }


def test_muster_up_says_that_the_nodes_are_anothers(muster: ZooKeeperClient, zk_hosts: str, access: Access) -> None:
    check_zookeeper(zk_hosts, Access())
    muster.call(muster.ensure_path_async, "/config/users")
    check_zookeeper(zk_hosts, access)
    with pytest.raises(CliError, match=r"not let this Muster read /config/users: set zookeeper\.credentials\.file"):
        check_zookeeper(zk_hosts, Access())


@pytest.mark.parametrize("way", [*_ways(None)])  # type: ignore[arg-type]
def test_each_way_to_create_a_node_protects_it(muster: ZooKeeperClient, zk: ZooKeeperClient, way: str) -> None:
    muster.call(muster.ensure_path_async, "/config/topics")
    muster.call(muster.ensure_path_async, "/config/users")
    _ways(muster)[way]("/config/topics/t")
    _ways(muster)[way]("/config/users/u")
    changes: list[Callable[[str], object]] = [
        lambda path: zk.set(path, b"stranger"),
        lambda path: zk.create(f"{path}/below"),
        lambda path: zk.set_acls(path, OPEN),
    ]
    for path in ("/config/topics", "/config/topics/t", "/config/users", "/config/users/u"):
        for change in changes:
            with pytest.raises(NoAuthError):
                change(path)
    for path in ("/config/topics/t", "/config/users/u"):
        with pytest.raises(NoAuthError):
            zk.delete(path)
    assert zk.get("/config/topics/t")[0] == b""
    assert zk.get_children("/config") == muster.get_children("/config")
    for read in (zk.get, zk.get_children):
        for path in ("/config/users", "/config/users/u"):
            with pytest.raises(NoAuthError):
                read(path)


def test_a_parent_that_is_created_on_the_way_has_the_acl_of_its_own_path(
    muster: ZooKeeperClient, zk: ZooKeeperClient
) -> None:
    muster.call(muster.create_async, "/config/users/u", b"", makepath=True)
    assert zk.get_children("/config") == ["users"], "all may read the parent of what only Muster may"
    with pytest.raises(NoAuthError):
        zk.get_children("/config/users")


def test_the_key_of_logins_is_read_by_muster_alone(muster: ZooKeeperClient, zk: ZooKeeperClient) -> None:
    """Who has it can find out which users exist."""
    secret = EntityRegistry(muster).login_secret()
    with pytest.raises(NoAuthError):
        zk.get(LOGIN_SECRET)
    assert EntityRegistry(muster).login_secret() == secret


def test_another_password_is_another_client(zk_hosts: str, muster: ZooKeeperClient, tmp_path: Path) -> None:
    muster.call(muster.ensure_path_async, "/brokers/topics")
    (tmp_path / "other").write_text(f"muster:{SECRET}2")
    other = connect(zk_hosts, Access(credentials_file=str(tmp_path / "other"), set_acl=True), timeout_s=10)
    with pytest.raises(NoAuthError):
        other.set("/brokers/topics", b"x")
    other.shut()


def test_protected_names_only_what_is_below(zk: ZooKeeperClient) -> None:
    assert all(len(protected(path)) == 1 and len(protected(f"{path}/x")) == 1 for path in SENSITIVE)
    assert all(len(protected(f"{path}2")) == 2 for path in SENSITIVE if f"{path}2" not in SENSITIVE)


def test_an_existing_tree_is_secured_and_opened(
    zk_hosts: str, zk: ZooKeeperClient, muster: ZooKeeperClient, access: Access
) -> None:
    for path in ("/brokers/topics/t", "/config/users/u", "/kafka-acl/Topic/t", "/not-of-muster"):
        zk.call(zk.ensure_path_async, path)
    before = [*nodes(muster)]
    assert (len(before), before[0]) == (9, "/brokers")
    assert not is_secure(muster)
    credentials = ["--zookeeper", zk_hosts, "--set", f"zookeeper.credentials.file={access.credentials_file}"]
    done = CliRunner().invoke(cli, ["zookeeper", "secure", *credentials])
    assert (done.exit_code, done.output) == (0, "10 nodes can only be changed by Muster now\n")
    assert is_secure(muster)
    assert [*nodes(muster)] == before
    for path in before:
        with pytest.raises(NoAuthError):
            zk.set(path, b"stranger")
    with pytest.raises(NoAuthError):
        zk.create("/new", b"")
    zk.set("/not-of-muster", b"its owner's")
    assert CliRunner().invoke(cli, ["zookeeper", "unsecure", *credentials]).exit_code == 0
    for path in before:
        zk.set(path, b"anyone")
    zk.create("/new", b"")


def test_a_stranger_secures_nothing(
    zk_hosts: str, zk: ZooKeeperClient, muster: ZooKeeperClient, tmp_path: Path
) -> None:
    muster.call(muster.ensure_path_async, "/config/users/u")
    (tmp_path / "other").write_text(f"other:{SECRET}")
    arguments = ["--zookeeper", zk_hosts, "--set", f"zookeeper.credentials.file={tmp_path / 'other'}"]
    done = CliRunner().invoke(cli, ["zookeeper", "secure", *arguments])
    assert done.exit_code == 1
    assert "ZooKeeper refuses" in done.output
    assert SECRET not in done.output


@pytest.mark.parametrize("content", [None, "", "muster", ":x", "muster:", f"a:{SECRET}\nb:{SECRET}", b"\xff:\xff"])
def test_unusable_credentials_are_reported_without_their_content(
    zk_hosts: str, tmp_path: Path, content: str | bytes | None
) -> None:
    file = tmp_path / "credentials"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ZooKeeperUnreachable, match="credentials") as raised:
        connect(zk_hosts, Access(credentials_file=str(file)), timeout_s=10)
    assert SECRET not in str(raised.value)
    assert SECRET not in repr(raised.getrepr(showlocals=False))
