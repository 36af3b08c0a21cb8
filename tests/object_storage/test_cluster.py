"""A whole Muster on a bucket: everything is killed, and its next start has another disk."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from muster.actors.object_storage.bucket import Bucket
from muster.actors.object_storage.location import Location
from tests.conformance.topics import commit, committed, create_topic, delete_topics, ends, fill, now_ms
from tests.muster_process import Muster, eventually
from tests.object_storage.faulty import Proxy
from tests.object_storage.seaweedfs import SeaweedFS

pytestmark = pytest.mark.ring(name="object-storage")

TOPIC, PARTITIONS, COUNT = "kept", 3, 200


class MusterOnBucket(Muster):
    """``storage`` is the directory of the node."""

    @property
    def command(self) -> list[str]:
        command = super().command
        at = command.index("--storage")
        return [*command[:at], *command[at + 2 :]]


def names_in(uri: str, folder: str) -> list[str]:
    async def read() -> list[str]:
        return [listed.name async for listed in Bucket(Location.parse(uri)).list(folder)]

    return asyncio.run(read())


def filled(muster: Muster) -> dict[str, object]:
    """Fill the topic further, and return its ends and the offsets of a group."""
    for partition in range(PARTITIONS):
        fill(muster.bootstrap, TOPIC, partition, [now_ms()] * COUNT)
        commit(muster.bootstrap, "g", {(TOPIC, partition): COUNT // 2})
    return shown(muster)


def shown(muster: Muster) -> dict[str, object]:
    return {"ends": ends(muster.bootstrap, TOPIC, PARTITIONS), "committed": committed(muster.bootstrap, "g")}


@pytest.fixture
def muster(
    tmp_path: Path, service: SeaweedFS, proxy: Proxy, uri: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MusterOnBucket]:
    for name, value in service.environment().items():
        monkeypatch.setenv(name, value)  # for what the test reads itself
    folder = tmp_path / "node"
    properties = {"storage.path": uri, "storage.object.cache.path": str(folder)}
    environment = {**os.environ, **service.environment(proxy.url)}
    muster = MusterOnBucket(folder, properties=properties, environment=environment)
    try:
        with muster:
            yield muster
    finally:
        assert muster.process is not None
        if muster.process.poll() is None:
            muster.kill_everything()


@pytest.mark.timeout(900)
def test_another_disk_has_all_that_was_acknowledged(muster: MusterOnBucket, proxy: Proxy, uri: str) -> None:
    """Requests fail now and then, before and after they took effect."""
    create_topic(muster.bootstrap, TOPIC, PARTITIONS)
    proxy.random = Random(1)
    for _ in range(2):
        before = filled(muster)
        muster.kill_everything()
        for lost in ("logs", "metrics"):
            shutil.rmtree(muster.storage / lost)
        muster.start()
        assert shown(muster) == before
    proxy.random = None
    assert len(proxy.met) > 2
    assert any(f"/{TOPIC}-" in name for name in names_in(uri, "manifests/"))
    delete_topics(muster.bootstrap, [TOPIC])
    eventually(
        lambda: [name for folder in ("manifests/", "logs/") for name in names_in(uri, folder) if f"/{TOPIC}-" in name],
        lambda names: not names,
        "the objects of a deleted topic are gone",
    )
