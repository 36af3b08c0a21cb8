"""Configs of entities in ZooKeeper. Calls block like those of muster.placement.topics."""

from __future__ import annotations

import base64
import contextlib
import logging
import secrets
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from muster.placement.epochs import ActorEpoch, commit_as
from muster.placement.layout import encode_config
from muster.placement.security.entities import (
    CLIENTS,
    IPS,
    USERS,
    Entity,
    EntityAlteration,
    MalformedEntity,
    clients_path,
    decode_entity_config,
    decode_name,
)
from muster.placement.zookeeper.client import ZooKeeperClient

log = logging.getLogger(__name__)

LOGIN_SECRET = "/login_secret"  # noqa: S105 - a path
"""Our own: 32 random bytes, Base64 (``DynamicConfigs.login_secret``)."""
_SECRET_BYTES = 32


class EntityRegistry:
    """Changes and lists configs of entities. Any number of registries may exist; ZooKeeper resolves conflicts.

    With ``controller``, every change is on behalf of that controller; ``epochs.Superseded`` once it has a successor.
    """

    def __init__(self, zk: ZooKeeperClient, controller: ActorEpoch | None = None) -> None:
        self._zk = zk
        self._controller = controller

    def load(self) -> dict[Entity, dict[str, str]]:
        """Return the entities with configs. A malformed node is logged, without its content, and left out."""
        zk = self._zk
        zk.call(zk.sync_async, "/")
        children = zk.children_of_many([USERS, CLIENTS, IPS])
        users = sorted(children.get(USERS, ()))
        nodes = [(f"{USERS}/{name}", partial(_user, name)) for name in users]
        nodes += [(f"{CLIENTS}/{name}", partial(_client, name)) for name in sorted(children.get(CLIENTS, ()))]
        nodes += [(f"{IPS}/{name}", partial(_ip, name)) for name in sorted(children.get(IPS, ()))]
        clients = zk.children_of_many([clients_path(name) for name in users])
        for user in users:
            parent = clients_path(user)
            names = sorted(clients.get(parent, ()))
            nodes += [(f"{parent}/{name}", partial(_user_client, user, name)) for name in names]
        return self._read(nodes)

    def login_secret(self) -> bytes:
        """Return the cluster's secret of this name, created if it does not exist."""
        zk = self._zk
        while True:
            try:
                return base64.b64decode(zk.call(zk.get_async, LOGIN_SECRET)[0])
            except NoNodeError:
                new = base64.b64encode(secrets.token_bytes(_SECRET_BYTES))
            with contextlib.suppress(NodeExistsError):
                commit_as(zk, self._controller, [("create", LOGIN_SECRET, new)])

    def _read(self, nodes: Iterable[tuple[str, Callable[[], Entity]]]) -> dict[Entity, dict[str, str]]:
        data = self._zk.read_many([path for path, _ in nodes])
        found: dict[Entity, dict[str, str]] = {}
        for path, entity_of in nodes:
            if path not in data:
                continue
            try:
                config = decode_entity_config(data[path][0])
                if config:
                    found[entity_of()] = config
            except MalformedEntity as error:
                log.warning("%s is left out: %s", path, error)
        return found

    def alter(self, alteration: EntityAlteration) -> None:
        """Carry out the alteration, as a whole. Raises UnstorableName.

        As in Kafka, the node of an entity stays when its last config is removed.
        """
        zk, path = self._zk, alteration.entity.path
        while True:
            try:
                data, stat = zk.call(zk.get_async, path)
            except NoNodeError:
                data, stat = b"", None
            current = self._current(path, data)
            wanted = alteration.after(current)
            if wanted == current:
                return
            operation: tuple[Any, ...]
            if stat is None:
                zk.call(zk.ensure_path_async, path.rpartition("/")[0])
                operation = ("create", path, encode_config(wanted))
            else:
                operation = ("set_data", path, encode_config(wanted), stat.version)
            try:
                commit_as(zk, self._controller, [operation])
            except (BadVersionError, NodeExistsError, NoNodeError):
                continue  # a concurrent change came first, or the response to our own was lost
            return

    @staticmethod
    def _current(path: str, data: bytes) -> dict[str, str]:
        """Return the configs stored there. A malformed node is logged, and replaced."""
        try:
            return decode_entity_config(data)
        except MalformedEntity as error:
            log.warning("%s is replaced: %s", path, error)
            return {}


def _user(node: str) -> Entity:
    return Entity.of_user(decode_name(node))


def _client(node: str) -> Entity:
    return Entity.of_client(decode_name(node))


def _ip(node: str) -> Entity:
    return Entity.of_ip(decode_name(node))


def _user_client(user_node: str, node: str) -> Entity:
    return Entity.of_user_client(decode_name(user_node), decode_name(node))
