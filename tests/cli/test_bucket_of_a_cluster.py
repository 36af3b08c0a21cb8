"""The bucket of a cluster at its start: whose data are there, whichever request fails at first."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.actors.runtime.storage import cluster_id_in
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.storage.bucket import cluster_id_of, findings_of
from tests.object_storage.conftest import proxy, service, uri
from tests.object_storage.faulty import Fault, Proxy
from tests.object_storage.seaweedfs import SeaweedFS

pytestmark = [pytest.mark.ring(name="object-storage"), pytest.mark.timeout(120)]

__all__ = ["proxy", "service", "uri"]


@pytest.fixture(autouse=True)
def through_the_proxy(service: SeaweedFS, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in service.environment(proxy.url).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def nodes(tmp_path: Path) -> list[Path]:
    found = [tmp_path / name for name in "ab"]
    for node in found:
        node.mkdir()
    return found


def test_another_node_finds_the_cluster(uri: str, nodes: list[Path]) -> None:
    first = cluster_id_of(uri, nodes[0])
    assert cluster_id_of(uri, nodes[1]) == first == cluster_id_in(nodes[1])
    assert cluster_id_of(uri, nodes[0]) == first


def test_a_directory_of_another_cluster_is_refused(uri: str, nodes: list[Path]) -> None:
    first, second = cluster_id_of(uri, nodes[0]), cluster_id_of(f"{uri}/other", nodes[1])
    with pytest.raises(CliError, match=f"belongs to cluster {second}, and {uri} to cluster {first}; choose another"):
        cluster_id_of(uri, nodes[1])


def test_logs_of_a_shared_directory_are_left_alone(uri: str, nodes: list[Path]) -> None:
    (nodes[0] / "logs" / "t-0").mkdir(parents=True)
    with pytest.raises(CliError, match=r"logs has logs of a Muster that does not live on a bucket; choose another"):
        cluster_id_of(uri, nodes[0])
    assert (nodes[0] / "logs" / "t-0").is_dir()


@pytest.mark.parametrize("fault", [Fault.SLOW_DOWN, Fault.LOST_REQUEST, Fault.LOST_RESPONSE, Fault.CONFLICT])
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_request_that_fails_once(uri: str, nodes: list[Path], proxy: Proxy, method: str, fault: Fault) -> None:
    proxy.plan(fault, method=method)
    first = cluster_id_of(uri, nodes[0])
    assert proxy.met == [fault]
    proxy.plan(fault, method="GET")
    assert cluster_id_of(uri, nodes[1]) == first


def test_a_bucket_that_fails_now_and_then_is_fit(uri: str, proxy: Proxy) -> None:
    for method in ("PUT", "GET", "DELETE", "POST"):
        proxy.plan(Fault.SLOW_DOWN, Fault.LOST_RESPONSE, Fault.LOST_REQUEST, method=method)
    assert [finding.problem for finding in findings_of(uri, thorough=False)] == [None] * 5
    assert len(proxy.met) >= 6
