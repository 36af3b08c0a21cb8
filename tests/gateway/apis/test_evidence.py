"""Which requests tell for which group a connection works; see docs/attribution.md."""

from __future__ import annotations

import pytest

from muster.gateway.listener.registry import APIS
from tests.gateway.faults.test_fault_answers import body_of
from tests.gateway.group_client import Fresh
from tests.gateway.serving import Serving

CONSUMERS_OWN = {"JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch"}
"""All others may be sent by whoever looks at or changes the groups of other people, or, as LeaveGroup, end them."""
EVERY = [
    pytest.param(key, version, id=f"{api.name}-{version}")
    for key, api in sorted(APIS.items())
    for version in sorted({api.versions[0], api.versions[-1]})
]


@pytest.mark.parametrize(("api_key", "version"), EVERY)
def test_only_requests_of_a_groups_own_consumers_are_evidence(
    full: Serving, fresh: Fresh, api_key: int, version: int
) -> None:
    topic, group = full.create(fresh("t")), fresh("g")
    with full.connect() as client:
        client.ask(api_key, version, body_of(api_key, topic, group))
        (connection,) = (each for each in full.gateway.connections.values() if each.port == client.port)
        found = connection.attribution.group_of("a client")
    assert found == (group if APIS[api_key].name in CONSUMERS_OWN else None)
