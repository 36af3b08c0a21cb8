"""The part of a backup that is in ZooKeeper: topics, configs, users, ACLs, epochs, producer ids, the mapping.

Only Muster's and Kafka's own paths are read, since others may use the ensemble. Ephemeral nodes are left out: they
say what runs. ZooKeeper's own ACLs are not kept; restored nodes get those of the client that creates them.

Restored epochs and producer ids are ahead of everything that the cluster may have given out after the backup
(:func:`ahead`), so none is given out twice:

* clients ignore metadata with a leader epoch below one that they have seen, and a producer id belongs to one producer;
* a consumer that is ahead of a restored log finds out, by OffsetForLeaderEpoch, that its epoch ended earlier there.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import BinaryIO, NamedTuple

from kazoo.exceptions import NodeExistsError

from muster.gateway.cli.errors import CliError
from muster.placement.layout import (
    ACTOR_EPOCHS,
    CLIENT_GROUP_FENCES,
    CLIENT_GROUP_ID,
    CONTROLLER_EPOCH,
    NO_LEADER,
    PRODUCER_ID_BLOCK,
    TOPICS,
    PartitionState,
    decode_producer_id_block,
    encode_producer_id_block,
)
from muster.placement.security.entity_registry import LOGIN_SECRET
from muster.placement.zookeeper.client import ZooKeeperClient

ROOTS = (
    TOPICS,
    "/config",
    CONTROLLER_EPOCH,
    PRODUCER_ID_BLOCK,
    ACTOR_EPOCHS,
    CLIENT_GROUP_ID,
    CLIENT_GROUP_FENCES,
    LOGIN_SECRET,
    "/kafka-acl",
    "/kafka-acl-extended",
)
"""Paths in a backup: without ``/cluster/id``, which a start writes, ``/drained_nodes``, which names nodes of one Ray,
and changes that Kafka's brokers announce to each other."""
LEADER_EPOCHS = 10_000
"""Lead of restored leader epochs. Each start of a log takes one, of 2**31."""
PRODUCER_IDS = 1_000_000_000
"""Lead of restored producer ids, of 2**63."""
_STATE = re.compile(re.escape(TOPICS) + r"/[^/]+/partitions/\d+/state")


class Node(NamedTuple):
    """A node that is not ephemeral."""

    path: str
    data: bytes


def read_nodes(zk: ZooKeeperClient) -> Iterator[Node]:
    """Yield all nodes of Muster, parents before children. Raises ZooKeeperUnreachable."""
    zk.call(zk.sync_async, "/")
    level = list(ROOTS)
    while level:
        found = zk.read_many(level)
        kept = {path: data for path, (data, stat) in found.items() if not stat.ephemeralOwner}
        yield from (Node(path, data or b"") for path, data in kept.items())
        children = zk.children_of_many(kept)
        level = [f"{path}/{child}" for path, names in children.items() for child in sorted(names)]


def write_lines(nodes: Iterable[Node], file: BinaryIO) -> int:
    """Write the nodes. Returns their number. Raises OSError."""
    count = 0
    for node in nodes:
        line = {"path": node.path, "data": base64.b64encode(node.data).decode()}
        file.write(json.dumps(line).encode() + b"\n")
        count += 1
    return count


def read_lines(file: BinaryIO) -> Iterator[Node]:
    """Yield the nodes of the file. Raises CliError naming a line that is none."""
    for number, line in enumerate(file, 1):
        try:
            fields = json.loads(line)
            yield Node(str(fields["path"]), base64.b64decode(fields["data"], validate=True))
        except (ValueError, TypeError, KeyError) as error:
            raise CliError(f"line {number} of the nodes of ZooKeeper cannot be read: {error}") from error


def topics_of(nodes: Iterable[Node]) -> set[str]:
    """Return the names of the topics."""
    parent = f"{TOPICS}/"
    return {
        node.path.removeprefix(parent)
        for node in nodes
        if node.path.startswith(parent) and "/" not in node.path.removeprefix(parent)
    }


def ahead(node: Node) -> Node:
    """Return the node as it is restored: epochs and ids beyond those that may have been given out since.

    Raises Malformed.
    """
    if _STATE.fullmatch(node.path):
        state = PartitionState.decode(node.data)
        epoch = state.leader_epoch + LEADER_EPOCHS
        return node._replace(data=replace(state, leader=NO_LEADER, leader_epoch=epoch, owner="").encode())
    if node.path == PRODUCER_ID_BLOCK:
        block = decode_producer_id_block(node.data)
        later = range(block.start + PRODUCER_IDS, block.stop + PRODUCER_IDS)
        return node._replace(data=encode_producer_id_block(later, -1))
    return node


def check_empty(zk: ZooKeeperClient) -> None:
    """Raise CliError if a Muster, or a Kafka, has nodes there. Raises ZooKeeperUnreachable."""
    used = [path for path, (data, stat) in zk.read_many(ROOTS).items() if stat.numChildren or path == CONTROLLER_EPOCH]
    if used:
        raise CliError(
            f"ZooKeeper at {zk.hosts_text} has {used[0]} already: a restore needs an empty one, or a chroot of its own "
            "(HOST:PORT/CHROOT)"
        )


def create_nodes(zk: ZooKeeperClient, nodes: Iterable[Node]) -> int:
    """Create the nodes, ahead of what was given out. Returns their number. ZooKeeperUnreachable, Malformed."""
    count = 0
    zk.call(zk.ensure_path_async, "/")
    for node in map(ahead, nodes):
        try:
            zk.call(zk.create_async, node.path, node.data, makepath=True)
        except NodeExistsError:  # its child needed it, or the response to an earlier attempt was lost
            zk.call(zk.set_async, node.path, node.data)
        count += 1
    return count
