"""Small files that all nodes of a cluster on a bucket have alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.actors.object_storage.location import Location
from muster.actors.object_storage.store import Taken
from muster.actors.offsets.history.publishing import Progress, _ProgressObject
from muster.actors.runtime.storage.shared_files import share
from muster.gateway.metrics.names import key_of, share_key
from tests.object_storage.conftest import Connect, connect, proxy, service, uri
from tests.object_storage.faulty import Fault, Proxy

pytestmark = [pytest.mark.ring(name="object-storage"), pytest.mark.timeout(120)]

__all__ = ["connect", "proxy", "service", "uri"]


@pytest.fixture
def nodes(tmp_path: Path) -> list[Path]:
    for name in "ab":
        (tmp_path / name).mkdir()
    return [tmp_path / "a", tmp_path / "b"]


@pytest.fixture
def location(connect: Connect, uri: str) -> Location:
    connect()
    return Location.parse(uri)


@pytest.fixture
def lose_the_bucket(location: Location, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")


def test_gateways_hash_names_with_one_key(location: Location, nodes: list[Path]) -> None:
    for node in nodes:
        share_key(location, node)
    keys = [key_of(node) for node in nodes]
    assert keys[0] == keys[1]
    assert len(keys[0]) == 32
    assert (nodes[0] / "run" / "metrics-key").stat().st_mode & 0o777 == 0o600


def test_nodes_at_once(location: Location, tmp_path: Path) -> None:
    async def run() -> None:
        await asyncio.gather(
            *(
                asyncio.to_thread(share, location, tmp_path / str(each), "run/key", str(each).encode)
                for each in range(8)
            )
        )

    asyncio.run(run())
    assert len({(tmp_path / str(each) / "run" / "key").read_bytes() for each in range(8)}) == 1


@pytest.mark.parametrize("fault", [Fault.LOST_RESPONSE, Fault.SLOW_DOWN, Fault.CONFLICT])
def test_a_request_that_fails(connect: Connect, uri: str, proxy: Proxy, tmp_path: Path, fault: Fault) -> None:
    connect(through_proxy=True)
    proxy.plan(fault)
    with pytest.raises(OSError, match="key of s3://"):
        share(Location.parse(uri), tmp_path, "key", lambda: b"first")
    assert not (tmp_path / "key").exists()
    share(Location.parse(uri), tmp_path, "key", lambda: b"second")
    assert (tmp_path / "key").read_bytes() == (b"first" if fault is Fault.LOST_RESPONSE else b"second")


def test_a_node_that_was_there_before_goes_on_without_the_bucket(
    location: Location, nodes: list[Path], lose_the_bucket: Callable[[], None]
) -> None:
    share_key(location, nodes[0])
    key = key_of(nodes[0])
    lose_the_bucket()
    share_key(location, nodes[0])
    assert key_of(nodes[0]) == key
    with pytest.raises(OSError, match="run/metrics-key of s3://"):
        share_key(location, nodes[1])


def test_how_far_rebalances_were_sent(location: Location) -> None:
    """The next coordinator knows it on any node, and the one before changes it no more."""
    first, second = (_ProgressObject(location, 7) for _ in range(2))
    assert first.read("t") is None
    first.write("t", Progress(1, 100))
    first.write("t", Progress(1, 200))
    assert second.read("t") == Progress(1, 200)
    assert _ProgressObject(location, 7).read("another") is None
    assert _ProgressObject(location, 8).read("t") is None
    second.write("t", Progress(2, 300))
    for _ in range(2):
        with pytest.raises(Taken):
            first.write("t", Progress(1, 400))
    assert _ProgressObject(location, 7).read("t") == Progress(2, 300)
    third = _ProgressObject(location, 7)
    with pytest.raises(Taken):
        third.write("t", Progress(3, 1))  # it had not read
    third.write("t", Progress(3, 1))
    assert _ProgressObject(location, 7).read("t") == Progress(3, 1)
