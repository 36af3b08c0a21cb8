"""A request that is meant for another cluster, sent by the commands' own client."""

from __future__ import annotations

import pytest

from muster.gateway.cli.http_client import GatewayUrl, NoHttpResponse, OtherCluster, get, send
from tests.gateway.serving import CLUSTER_ID, Serving

PROPERTIES = {"fault.injection.enable": "true"}
FAULT = {"action": "drop", "api": "Heartbeat"}


@pytest.mark.parametrize("cluster_id", ["", CLUSTER_ID])
def test_the_right_cluster_responds(full: Serving, cluster_id: str) -> None:
    assert get(GatewayUrl(full.http_url, cluster_id), "/v1/status")["cluster_id"] == CLUSTER_ID


def test_another_cluster_reports_nothing_of_its_own(full: Serving) -> None:
    with pytest.raises(OtherCluster):
        get(GatewayUrl(full.http_url, "other"), "/v1/groups/lag")


def test_another_cluster_does_nothing(full: Serving) -> None:
    gateway = GatewayUrl(full.http_url, "other")
    with pytest.raises(NoHttpResponse, match="no gateway of this cluster"):
        send([gateway], "POST", "/v1/faults", FAULT)
    assert full.http("/v1/faults")[1] == '{"faults": []}'
    assert send([gateway, GatewayUrl(full.http_url, CLUSTER_ID)], "POST", "/v1/faults", FAULT)["id"]


def test_nobody_gets_the_id(full: Serving) -> None:
    assert CLUSTER_ID not in full.http("/v1/groups/lag", **{"Muster-Cluster-Id": "other"})[1]
