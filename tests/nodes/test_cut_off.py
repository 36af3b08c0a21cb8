"""Two copies of a node's actors at once, as after a network partition."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count

import pytest

from muster.actors.wire.internal.channel import Channel, connect
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.hashing import partition_for
from muster.placement.view import OFFSETS_TOPIC, ClusterView, Endpoint, Topic
from tests.muster_process import eventually
from tests.nodes.bench import SETTLED_S, Bench, RayNode, has_ended
from tests.nodes.files import counted, unchanged
from tests.nodes.raw import commit, produce
from tests.nodes.work import drain, work


async def written_by_old(view: ClusterView, node_id: str, topic: Topic) -> list[ErrorCode | str]:
    """Responses of the actors that were on that node to writes, sent without a gateway."""
    results: list[ErrorCode | str] = []
    offsets_partitions = view.topics[OFFSETS_TOPIC].partitions

    async def attempt(endpoint: Endpoint, write: Callable[[Channel], Awaitable[ErrorCode]]) -> None:
        try:
            channel = await connect(endpoint, node_id, on_updates=None, on_lost=lambda: None)
            results.append(await write(channel))
            channel.close()
        except (OSError, TimeoutError):  # it has noticed and ended
            results.append("lost")

    for index, endpoint in view.logs.items():
        if endpoint is not None and endpoint.node_id == node_id:
            for partition in range(topic.partitions):
                if view.log_of(topic, partition) == index:
                    await attempt(endpoint, partial(produce, topic=topic, partition=partition, value=b"late"))
    for partition, endpoint in view.offsets.items():
        if endpoint is not None and endpoint.node_id == node_id:
            group = next(f"late-{n}" for n in count() if partition_for(f"late-{n}", offsets_partitions) == partition)
            await attempt(endpoint, partial(commit, group=group, offset=1))
    return results


def to_be_cut_off(bench: Bench, homes: dict[str, str]) -> RayNode:
    """Return a node other than the head with actors that write; preferably the controller's."""
    writing = [home for name, home in homes.items() if name.startswith(("log", "offsets"))]
    nodes = [node for node in bench.nodes.nodes.values() if node != bench.nodes.head and node.node_id in writing]
    return max(nodes, key=lambda node: (node.node_id == homes["controller"], writing.count(node.node_id)))


@pytest.mark.timeout(600)
def test_actors_of_a_node_that_is_cut_off_can_write_nothing(on_nodes: Bench, fresh: Callable[[str], str]) -> None:
    """Its raylet is stopped and its actors continue, mostly with the controller, while Ray starts second copies."""
    nodes = on_nodes.nodes
    with work(on_nodes, fresh) as clients:
        if on_nodes.until_settled()["controller"] == nodes.head.node_id:
            for options in ([], ["--undo"]):  # the controller moves to another node
                assert drain(on_nodes, nodes.head.node_id, *options).returncode == 0
        before = on_nodes.until_settled()
        stable = clients.stability()
        cut_off = to_be_cut_off(on_nodes, before)
        view = nodes.view()
        old_pids = {a["name"]: a["pid"] for a in on_nodes.status()["actors"] if a["node_id"] == cut_off.node_id}
        folders = [*(on_nodes.muster.storage / "logs").glob("*-*")]
        with nodes.paused(cut_off):
            clients.go_on()
            elsewhere = lambda homes: cut_off.node_id not in homes.values()  # noqa: E731
            eventually(on_nodes.until_settled, elsewhere, "everything serves elsewhere", SETTLED_S)
            clients.go_on()  # a partition is fenced once its successor has opened it, for the first request
            found = {folder: counted(folder) for folder in folders}
            results = asyncio.run(written_by_old(view, cut_off.node_id, view.topics[clients.producer.topic]))
            assert results
            assert ErrorCode.none not in results
            clients.go_on()
            assert all(unchanged(data, counted(folder)) for folder, data in found.items())
            if controller := old_pids.get("controller"):
                eventually(lambda: has_ended(controller), bool, "the old controller notices its successor")
        clients.go_on()
        assert clients.stability() == stable
        nodes.kill(cut_off)
        nodes.add()
        on_nodes.until_settled()
        clients.go_on()
        assert clients.stability() == stable
