"""The authorizer against its rules, written as they read, and against Kafka's documented cases."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.gateway.security.authorization.authorizer import SUPPORTED, Authorizer
from muster.placement.security.acls import Acl, AclOperation, AclPatternType, AclPermission, AclResourceType
from tests.gateway.authorization.acls import ALICE, BOB, HOST, NAMES, OTHER_HOST, PRINCIPALS, acl, acls

TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
READ, WRITE, CREATE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DESCRIBE
ROOT = "User:root"
IMPLIED_BY = {
    DESCRIBE: {READ, WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}


def authorizer(*rules: str | Acl, allow_everyone: bool = False, super_users: Iterable[str] = (ROOT,)) -> Authorizer:
    found = [acl(rule) if isinstance(rule, str) else rule for rule in rules]
    return Authorizer(found, super_users, allow_everyone=allow_everyone)


def allows_by_the_rules(
    rules: list[Acl], everyone: bool, principal: str, host: str, operation: AclOperation, kind: int, name: str
) -> bool:
    def is_about(rule: Acl) -> bool:
        _, own, pattern_type = rule.pattern
        if pattern_type is AclPatternType.PREFIXED:
            return name.startswith(own)
        return own in (name, "*")

    if principal == ROOT:
        return True
    about = [rule for rule in rules if rule.pattern.resource_type == kind and is_about(rule)]
    own = [rule for rule in about if rule.principal in (principal, "User:*") and rule.host in (host, "*")]
    denied = {rule.operation for rule in own if rule.permission is AclPermission.DENY}
    allowed = {rule.operation for rule in own if rule.permission is AclPermission.ALLOW}
    if denied & {operation, AclOperation.ALL}:
        return False
    if allowed & {operation, AclOperation.ALL, *IMPLIED_BY.get(operation, set())}:
        return True
    return not about and everyone


requests_of_clients = st.tuples(
    st.sampled_from((*PRINCIPALS, ROOT)),
    st.sampled_from((HOST, OTHER_HOST)),
    st.sampled_from([each for each in AclOperation if each > AclOperation.ALL]),
    st.sampled_from((TOPIC, GROUP)),
    st.sampled_from((*NAMES, "abcd", "x", "")),
)


@given(st.lists(acls, max_size=12), st.booleans(), st.lists(requests_of_clients, min_size=1, max_size=8))
def test_any_acls(
    rules: list[Acl], everyone: bool, requests: list[tuple[str, str, AclOperation, AclResourceType, str]]
) -> None:
    decides = authorizer(*rules, allow_everyone=everyone)
    for each in (*requests, *requests):
        assert decides.allows(*each) is allows_by_the_rules(rules, everyone, *each)
        principal, host, _, kind, name = each
        wanted = {
            operation
            for operation in AclOperation
            if SUPPORTED[kind] >> operation & 1
            and allows_by_the_rules(rules, everyone, principal, host, operation, kind, name)
        }
        assert decides.operations(principal, host, kind, name) == sum(1 << operation for operation in wanted)


@given(st.lists(acls, max_size=12), st.booleans(), st.sampled_from((WRITE, READ)))
def test_any_topic(rules: list[Acl], everyone: bool, operation: AclOperation) -> None:
    """Some topic, of whatever name: one of those that ACLs name, or one that no literal and no longer prefix names."""
    names = {*NAMES, *(f"{name}~" for name in NAMES), "~"}
    may = any(allows_by_the_rules(rules, everyone, ALICE, HOST, operation, TOPIC, name) for name in names)
    assert authorizer(*rules, allow_everyone=everyone).allows_any(ALICE, HOST, operation, TOPIC) is may


def decide(rules: list[str | Acl], operation: AclOperation, name: str = "t", **changes: object) -> bool:
    return authorizer(*rules, **changes).allows(ALICE, HOST, operation, TOPIC, name)  # type: ignore[arg-type]


def test_deny_comes_first_and_only_for_its_host() -> None:
    rules = authorizer("ALLOW READ TOPIC t", acl("DENY READ TOPIC t", host=HOST))
    assert not rules.allows(ALICE, HOST, READ, TOPIC, "t")
    assert rules.allows(ALICE, OTHER_HOST, READ, TOPIC, "t")


def test_implications() -> None:
    assert not decide(["ALLOW ALL TOPIC t", "DENY DESCRIBE TOPIC t"], DESCRIBE)
    assert decide(["ALLOW ALL TOPIC t", "DENY DESCRIBE TOPIC t"], READ)
    denied_by_prefix: list[str | Acl] = ["ALLOW READ TOPIC t", "DENY READ TOPIC t*"]
    assert decide(denied_by_prefix, DESCRIBE)
    assert not decide(denied_by_prefix, READ)
    assert not decide(["ALLOW DESCRIBE TOPIC t"], READ)
    assert not decide(["ALLOW WRITE TOPIC pay-*"], CREATE, "pay-x")
    assert decide(["ALLOW WRITE TOPIC pay-*", "ALLOW CREATE TOPIC pay-*"], CREATE, "pay-x")


def test_a_resource_without_acls() -> None:
    assert decide([], READ, allow_everyone=True)
    assert not decide([], READ)
    of_another = acl("ALLOW READ TOPIC t", BOB)
    assert not decide([of_another], READ, allow_everyone=True)
    assert decide([of_another], READ, "u", allow_everyone=True)
    assert not decide([acl("ALLOW READ TOPIC *", BOB)], READ, "u", allow_everyone=True)


@pytest.mark.parametrize(
    ("rules", "may"),
    [
        (["ALLOW WRITE TOPIC t"], True),
        (["ALLOW WRITE TOPIC *"], True),
        (["ALLOW ALL TOPIC t*"], True),
        ([], False),
        (["ALLOW READ TOPIC t"], False),
        (["ALLOW WRITE GROUP t"], False),
        (["ALLOW WRITE TOPIC t", "DENY WRITE TOPIC *"], False),
        (["ALLOW WRITE TOPIC *", "DENY ALL TOPIC *"], False),
        (["ALLOW WRITE TOPIC ab*", "DENY WRITE TOPIC a*"], False),
        (["ALLOW WRITE TOPIC a*", "DENY WRITE TOPIC ab*"], True),
        (["ALLOW WRITE TOPIC a*", "DENY WRITE TOPIC a*"], False),
        (["ALLOW WRITE TOPIC abc", "DENY WRITE TOPIC a*"], False),
        (["ALLOW WRITE TOPIC abc", "DENY WRITE TOPIC abc"], False),
        (["ALLOW WRITE TOPIC abc", "DENY READ TOPIC abc"], True),
        (["ALLOW WRITE TOPIC abc*", "DENY WRITE TOPIC abc"], True),
        (["ALLOW WRITE TOPIC abc", "DENY WRITE TOPIC abcd", "ALLOW WRITE TOPIC abcd"], True),
        ([acl("ALLOW WRITE TOPIC t", BOB)], False),
        ([acl("ALLOW WRITE TOPIC t", host=OTHER_HOST)], False),
        ([acl("ALLOW WRITE TOPIC t", "User:*")], True),
    ],
)
def test_may_write_to_any_topic(rules: list[str | Acl], may: bool) -> None:
    assert authorizer(*rules).allows_any(ALICE, HOST, WRITE, TOPIC) is may
    assert authorizer(*rules).allows_any(ROOT, HOST, WRITE, TOPIC)


def test_any_topic_where_everyone_may_use_what_has_no_acls() -> None:
    assert authorizer(allow_everyone=True).allows_any(ALICE, HOST, WRITE, TOPIC)
    assert authorizer(acl("ALLOW READ TOPIC t", BOB), allow_everyone=True).allows_any(ALICE, HOST, WRITE, TOPIC)
    assert not authorizer("DENY WRITE TOPIC *", allow_everyone=True).allows_any(ALICE, HOST, WRITE, TOPIC)
    assert not authorizer(acl("ALLOW READ TOPIC *", BOB), allow_everyone=True).allows_any(ALICE, HOST, WRITE, TOPIC)


def test_names_are_compared_with_case() -> None:
    assert not authorizer(super_users=("User:Admin",)).allows("User:admin", HOST, READ, TOPIC, "t")
    assert authorizer(super_users=("User:Admin",)).allows("User:Admin", HOST, READ, TOPIC, "t")
    assert not decide(["ALLOW READ TOPIC T"], READ)
    assert not decide([acl("ALLOW READ TOPIC t", "user:alice")], READ)
    assert not decide([acl("ALLOW READ TOPIC t", "Group:*")], READ)
    assert decide([acl("ALLOW READ TOPIC t", "User:*")], READ)


def test_a_prefix_that_is_an_asterisk_is_that_character() -> None:
    rule = acl("ALLOW READ TOPIC \\*")
    assert rule.pattern == (TOPIC, "*", AclPatternType.PREFIXED)
    assert decide([rule], READ, "*x")
    assert not decide([rule], READ, "x")


@pytest.mark.parametrize(
    ("written", "host"),
    [("0:0:0:0:0:0:0:1", "::1"), ("2001:DB8::0A", "2001:db8::a"), ("::ffff:10.0.0.1", "10.0.0.1")],
)
def test_a_host_may_be_written_in_any_way(written: str, host: str) -> None:
    rules = authorizer("ALLOW READ TOPIC t", acl("DENY READ TOPIC t", host=written))
    assert not rules.allows(ALICE, host, READ, TOPIC, "t")


def test_operations_of_a_super_user_are_all_that_mean_something() -> None:
    """Kafka's brokers respond so to those who may do everything."""
    wanted = {TOPIC: 3576, GROUP: 3400, CLUSTER: 8096, 5: 272, 6: 256, 7: 24576}
    assert {int(kind): authorizer().operations(ROOT, HOST, kind, "x") for kind in SUPPORTED} == wanted
    assert authorizer("ALLOW READ TOPIC t").operations(ALICE, HOST, TOPIC, "t") == 264


def test_a_client_that_requests_many_names_does_not_fill_the_memory() -> None:
    rules = authorizer("ALLOW READ TOPIC t-*")
    for number in range(20_000):
        assert rules.allows(ALICE, HOST, READ, TOPIC, f"t-{number}")
        assert not rules.allows(ALICE, HOST, READ, TOPIC, f"{number}" * 60)
    assert len(rules._allowed) <= 16_384
    assert max(len(name) for *_, name in rules._allowed) <= 255
