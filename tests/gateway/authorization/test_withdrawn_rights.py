"""A right that is withdrawn counts from the next request on, and what is not allowed is no evidence of a group."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from muster.actors.group.types import GroupId
from muster.actors.wire.codec import ErrorCode
from muster.placement.security.acls import AclFilter
from tests.gateway.apis.test_heartbeat_leases import Coordinator, coordinator, leased, stable
from tests.gateway.authorization.acls import acl
from tests.gateway.group_client import OFFSET_FETCH, Fresh
from tests.gateway.serving import Serving

__all__ = ["coordinator"]

PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
    "group.initial.rebalance.delay.ms": "0",
}
CLIENT = "User:ANONYMOUS"
Allow = Callable[..., None]


@pytest.fixture
def allow(full: Serving) -> Iterator[Allow]:
    """Creates ACLs for the client; they are gone after the test."""

    def create(*rules: str) -> None:
        full.run(full.controller.create_acls([acl(rule, CLIENT) for rule in rules]))

    yield create
    full.run(full.controller.delete_acls([AclFilter()]))


def test_a_leased_heartbeat_is_refused_once_the_group_may_not_be_read(
    full: Serving, fresh: Fresh, coordinator: Coordinator, allow: Allow
) -> None:
    group = GroupId(fresh("g"))
    allow(f"ALLOW READ GROUP {group}")
    member = stable(full, group)
    leased(member, coordinator)
    before = coordinator.heartbeats
    full.run(full.controller.delete_acls([AclFilter()]))
    assert member.heartbeat() is ErrorCode.group_authorization_failed
    assert coordinator.heartbeats == before
    allow(f"ALLOW READ GROUP {group}")
    assert member.heartbeat() is ErrorCode.none


@pytest.mark.parametrize(("right", "is_evidence"), [("DESCRIBE", False), ("READ", True)])
def test_only_a_group_that_may_be_read_is_evidence(
    full: Serving, fresh: Fresh, allow: Allow, monkeypatch: pytest.MonkeyPatch, right: str, is_evidence: bool
) -> None:
    """OffsetFetch requires less."""
    group = fresh("g")
    seen: list[str] = []
    allow(f"ALLOW {right} GROUP {group}")
    monkeypatch.setattr(full.gateway.account, "group_request", lambda *of: seen.append(of[-1]))
    body = {"group_id": group, "topics": [], "require_stable": False}
    assert full.exchange(OFFSET_FETCH, 7, body).error_code is not ErrorCode.group_authorization_failed
    assert seen == ([group] if is_evidence else [])
