"""Deployments whose replicas are members of a group, on a real Serve."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from muster.serve import Consumer
from tests.muster_process import eventually
from tests.ray.pool.kit import PARTITIONS, Kit, writing

pytestmark = pytest.mark.ring(name="ray")

COUNT = 200
APP = "consumers"
SETTINGS: dict[str, Any] = {
    "ray_actor_options": {"num_cpus": 0.1},
    "graceful_shutdown_timeout_s": 60,
    "graceful_shutdown_wait_loop_s": 0.1,
    "health_check_period_s": 1,
}


@pytest.fixture
def run(serve: Any) -> Iterator[Callable[..., Any]]:
    """Return a function that deploys, with the constructor's arguments."""
    yield lambda deployment, *arguments: serve.run(deployment.bind(*arguments), name=APP, route_prefix=None)
    serve.delete(APP)


def test_replicas_consume_and_serve_requests(kit: Kit, serve: Any, run: Callable[..., Any]) -> None:
    write = writing(kit.out)

    @serve.deployment(num_replicas=2, **SETTINGS)
    class Readers(Consumer):
        topics = kit.topic
        group = kit.group
        cluster = kit.cluster

        def __init__(self, step: int) -> None:
            self.step = step
            self.handled = 0

        def handle(self, batch: pa.Table) -> None:
            self.handled += self.step * batch.num_rows
            write(batch)

        def __call__(self) -> tuple[int, int]:
            return os.getpid(), self.handled

    kit.produce(COUNT)
    handle = run(Readers, 10)
    kit.until_owned(by=2)
    kit.until_handled(COUNT)
    kit.until_committed(COUNT)
    kit.produce(COUNT, COUNT)
    kit.until_handled(2 * COUNT)
    responses: dict[int, int] = {}
    eventually(
        lambda: responses.update([handle.remote().result()]) or sum(responses.values()),
        lambda total: total == 10 * 2 * COUNT,
        "both replicas respond",
    )
    assert set(kit.by_pid()) == set(responses)


def test_a_replica_that_ends_commits_its_batch_and_leaves(kit: Kit, serve: Any, run: Callable[..., Any]) -> None:
    """An ingress, which Serve makes a class of its own from the deployment's."""

    async def app(scope: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        assert scope["type"] == "lifespan"
        while (await receive())["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})

    write, cluster = writing(kit.out, each_s=0.1), kit.cluster

    @serve.deployment(**SETTINGS)
    @serve.ingress(lambda: app)
    class Readers(Consumer):
        def __init__(self, *settings: Any) -> None:
            super().__init__(*settings, cluster=cluster, max_records=20)
            self.begun = threading.Event()

        def handle(self, batch: pa.Table) -> None:
            self.begun.set()
            write(batch)

        def until_begun(self) -> bool:
            return self.begun.wait(30)

    kit.produce(COUNT)
    handle = run(Readers, [kit.topic], kit.group)
    assert handle.until_begun.remote().result()
    serve.delete(APP)
    assert not kit.members()
    handled = kit.handled()
    assert 0 < len(handled) < COUNT
    committed = kit.committed()
    counts = {index: sum(partition == index for _, partition, _ in handled) for index in range(PARTITIONS)}
    assert {index: max(offset, 0) for index, offset in committed.items()} == counts


def test_a_replica_whose_loop_ends_is_replaced(kit: Kit, serve: Any, run: Callable[..., Any]) -> None:
    write, failed = writing(kit.out), kit.directory / "failed"

    @serve.deployment(**SETTINGS)
    class Readers(Consumer):
        attempts = 1
        cluster = kit.cluster

        def handle(self, batch: pa.Table) -> None:
            if b"42" in batch["value"].to_pylist():
                if not failed.exists():
                    failed.write_text(str(os.getpid()))
                if failed.read_text() == str(os.getpid()):
                    raise ValueError("not in this process")
            write(batch)

        def pid(self) -> int:
            return os.getpid()

    kit.produce(COUNT)
    handle = run(Readers, kit.topic, kit.group)
    kit.until_handled(COUNT)
    kit.until_committed(COUNT)
    assert handle.pid.remote().result() != int(failed.read_text())
    assert len(kit.members()) == 1


def test_a_deployment_that_cannot_consume_is_refused(kit: Kit, serve: Any, run: Callable[..., Any]) -> None:
    @serve.deployment(**SETTINGS)
    class Readers(Consumer):
        cluster = kit.cluster

    with pytest.raises(RuntimeError, match="failed"):
        run(Readers, kit.topic)
    status = serve.status().applications[APP]
    assert "the name of the group is empty" in status.message + str(status.deployments)
