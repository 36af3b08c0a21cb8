"""Requests of tools to the cluster itself, to one gateway."""

from __future__ import annotations

import pytest

from tests.gateway.apis.cluster_apis import SAFE_DOWNGRADE, ClusterApis, unregister, update
from tests.gateway.serving import Client, Serving


@pytest.fixture
def client(served: Serving) -> Client:
    return served.client


class TestClusterApis(ClusterApis):
    pass


def test_a_level_is_changed_by_its_property_alone(client: Client) -> None:
    error, message = update(client, ("transaction.version", 1, SAFE_DOWNGRADE))
    assert error == "invalid_update_version"
    assert "Muster's level is 2: the property transaction.version, which is read at the start." in (message or "")


def test_a_gateway_that_serves_stays_registered(client: Client) -> None:
    says = "Broker 1 serves, and is registered until it ends; muster drain moves it off its node."
    assert unregister(client, 1) == ("invalid_request", says)


def test_without_gateways_there_is_no_voter(served: Serving) -> None:
    body = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
    served.without_brokers()
    response = served.exchange(55, 2, body)
    (found,) = response.topics[0].partitions
    assert (found.leader_id, found.current_voters, response.nodes) == (-1, (), ())
