"""Configs altered while the cluster runs, in ZooKeeper. Calls block like those of muster.placement.topics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from muster.placement.epochs import ActorEpoch, commit_as
from muster.placement.layout import (
    BROKER_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    DEFAULT_BROKER,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    Malformed,
    broker_config_path,
    decode_config,
    decode_group,
    decode_subscription,
    encode_client_metrics_config,
    encode_config,
    encode_group_config,
    topic_config_path,
    topic_path,
)
from muster.placement.mapping.nodes import encode_segment
from muster.placement.topics import stored_config, unknown_topic
from muster.placement.view import DynamicConfigs
from muster.placement.zookeeper.client import ZooKeeperClient

log = logging.getLogger(__name__)

Decide = Callable[[Mapping[str, str]], Mapping[str, str]]
"""From the current to the new configuration. Called again after a concurrent change; what it raises ends the call."""


class ConfigRegistry:
    """Changes and lists configurations. Any number of registries may exist; ZooKeeper resolves conflicts.

    With ``controller``, every change is on behalf of that controller; ``epochs.Superseded`` once it has a successor.
    """

    def __init__(self, zk: ZooKeeperClient, controller: ActorEpoch | None = None) -> None:
        self._zk = zk
        self._controller = controller

    def load(self) -> DynamicConfigs:
        """All except those of topics, which ``TopicRegistry`` loads. Malformed ones are logged and left out."""
        groups = {decode_group(data): decode_config(data) for _, data in self._children(GROUP_CONFIGS)}
        subscriptions = self._children(CLIENT_METRICS_CONFIGS)
        client_metrics = {decode_subscription(data): decode_config(data) for _, data in subscriptions}
        return replace(self.load_brokers(), groups=groups, client_metrics=client_metrics)

    def load_brokers(self) -> DynamicConfigs:
        """Like :meth:`load`, but without groups, of which there may be thousands."""
        brokers = {name: decode_config(data) for name, data in self._children(BROKER_CONFIGS)}
        return DynamicConfigs(
            cluster=brokers.pop(DEFAULT_BROKER, {}),
            brokers={int(name): config for name, config in brokers.items() if name.isdecimal()},
        )

    def change_topic(self, topic: str, decide: Decide) -> None:
        """Let ``decide`` change the topic's configuration. Raises UnknownTopic."""

        def decide_if_there(current: Mapping[str, str]) -> Mapping[str, str]:
            wanted = decide(current)
            if not self._zk.call(self._zk.exists_async, topic_path(topic)):
                raise unknown_topic(topic)
            return wanted

        check = ("check", topic_path(topic), -1)
        self._change(TOPIC_CONFIGS, topic_config_path(topic), decide_if_there, encode_config, check)

    def change_broker(self, broker: str, decide: Decide) -> None:
        """Let ``decide`` change the configuration of the broker with that id, or of DEFAULT_BROKER."""
        self._change(BROKER_CONFIGS, broker_config_path(broker), decide, encode_config)

    def change_group(self, group: str, decide: Decide) -> None:
        """Let ``decide`` change the group's configuration."""
        path = f"{GROUP_CONFIGS}/{encode_segment(group)}"
        self._change(GROUP_CONFIGS, path, decide, lambda config: encode_group_config(group, config))

    def change_client_metrics(self, subscription: str, decide: Decide) -> None:
        """Let ``decide`` change the configuration of the subscription; without any, it does not exist."""
        path = f"{CLIENT_METRICS_CONFIGS}/{encode_segment(subscription)}"
        encode = partial(encode_client_metrics_config, subscription)
        self._change(CLIENT_METRICS_CONFIGS, path, decide, encode)

    def _change(
        self,
        parent: str,
        path: str,
        decide: Decide,
        encode: Callable[[Mapping[str, str]], bytes],
        *checks: tuple[str, str, int],
    ) -> None:
        zk = self._zk
        zk.call(zk.ensure_path_async, parent)
        while True:
            try:
                data, stat = zk.call(zk.get_async, path)
            except NoNodeError:
                data, stat = None, None
            current = stored_config(path, data) if data is not None else {}
            wanted = decide(current)
            if wanted == current:
                return
            operation: tuple[Any, ...]
            if stat is None:
                operation = ("create", path, encode(wanted))
            elif wanted or checks:
                operation = ("set_data", path, encode(wanted), stat.version)
            else:
                operation = ("delete", path, stat.version)
            try:
                commit_as(zk, self._controller, [*checks, operation])
            except (BadVersionError, NodeExistsError, NoNodeError):
                continue  # a concurrent change came first, or the response to our own was lost
            return

    def _children(self, parent: str) -> list[tuple[str, bytes]]:
        """(name, data) of every configuration below the path."""
        zk = self._zk
        try:
            zk.call(zk.sync_async, parent)
            names = sorted(zk.call(zk.get_children_async, parent))
        except NoNodeError:
            return []
        nodes = zk.read_many([f"{parent}/{name}" for name in names])
        found = [(name, nodes[f"{parent}/{name}"][0]) for name in names if f"{parent}/{name}" in nodes]
        return [(name, data) for name, data in found if _is_config(f"{parent}/{name}", data)]


def _is_config(path: str, data: bytes) -> bool:
    try:
        decode_config(data)
        if path.startswith(f"{GROUP_CONFIGS}/"):
            decode_group(data)
        elif path.startswith(f"{CLIENT_METRICS_CONFIGS}/"):
            decode_subscription(data)
    except Malformed as error:
        log.warning("%s is left out: %s", path, error)
        return False
    return True
