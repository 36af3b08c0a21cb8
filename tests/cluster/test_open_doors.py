"""Doors of a running Muster, as a stranger finds them."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable

import pytest
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import Permissions

from muster.gateway.security.scram import SCRAM_MECHANISMS
from muster.placement.zookeeper.access import SENSITIVE
from muster.placement.zookeeper.client import ZooKeeperClient, connect
from tests.cluster.test_clients import create
from tests.muster_process import Muster


def _tree(zk: ZooKeeperClient, path: str = "/") -> list[str]:
    below = f"{path.rstrip('/')}/"
    return [path, *(each for name in zk.get_children(path) for each in _tree(zk, f"{below}{name}"))]


def test_no_node_of_zookeeper_is_open(muster: Muster, fresh: Callable[[str], str]) -> None:
    """Whatever other tests have had it create: topics, configs, epochs, mappings, the controller's node."""
    topic = fresh("t")
    create(muster, topic)
    zk, stranger = muster.zookeeper(), connect(muster.ready["zookeeper"], timeout_s=15)
    try:
        found = _tree(zk)
        assert {f"/brokers/topics/{topic}", "/controller", "/brokers/ids/1"} <= {*found}
        for path in found:
            try:
                acls = zk.get_acls(path)[0]
            except NoNodeError:  # removed since, as the registrations of earlier tests' consumers are
                continue
            others = [acl for acl in acls if acl.id.scheme != "digest"]
            assert all(acl.perms == Permissions.READ for acl in others), (path, acls)
            with pytest.raises(NoAuthError):
                stranger.create(f"{path.rstrip('/')}/by-a-stranger", b"")
            if path.startswith(SENSITIVE):
                assert others == []
                with pytest.raises(NoAuthError):
                    stranger.get(path)
            else:
                stranger.get(path)
            if path != "/":
                with pytest.raises(NoAuthError):
                    stranger.set(path, b"a stranger's")
    finally:
        zk.shut()
        stranger.shut()


def test_its_files_are_its_own(muster: Muster) -> None:
    folder = muster.storage / "zookeeper"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "credentials").stat().st_mode) == 0o600


def test_users_are_added_and_removed_through_ray_without_a_login(muster: Muster, fresh: Callable[[str], str]) -> None:
    """And gateways have them when the command ends."""
    name = fresh("user")

    def listed() -> list[str]:
        rows = json.loads(muster.cli("user", "list", "--json", "--bootstrap-server", muster.bootstrap))
        return [row["mechanism"] for row in rows if row["user"] == name]

    password = muster.storage.with_name(name)
    password.write_text("open sesame\n")
    muster.cli("user", "add", name, "--password-file", str(password))
    assert listed() == [*SCRAM_MECHANISMS]
    muster.cli("user", "remove", name)
    assert not listed()
    again = muster.run("user", "remove", name)
    assert (again.returncode, again.stderr) == (
        1,
        f"muster: ZooKeeper has no user {name}; one of sasl.credentials.file is removed with --file\n",
    )
