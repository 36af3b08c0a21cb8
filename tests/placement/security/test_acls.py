"""Filters of ACLs against the table of Kafka's pattern filters, packed sets, and Kafka's nodes."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.placement.layout import Malformed
from muster.placement.security.acl_nodes import acl_path, change_notification, decode_acls, encode_acls, has_node
from muster.placement.security.acls import (
    OPERATIONS,
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPatternType,
    AclPermission,
    AclResourceType,
    Acls,
)
from tests.gateway.authorization.acls import acl, acls

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
ANY, MATCH = AclPatternType.ANY, AclPatternType.MATCH
LITERAL, PREFIXED = AclPatternType.LITERAL, AclPatternType.PREFIXED
PATTERNS = ("pay-x", "pay-", "*", "pay-*", "p*", "pay-x*", "pay-xx*", "\\*")
"""Names of ACLs' patterns, see :func:`acl`."""


@pytest.mark.parametrize(
    ("pattern_type", "name", "found"),
    [
        (ANY, None, set(PATTERNS)),
        (ANY, "pay-", {"pay-", "pay-*"}),
        (ANY, "*", {"*", "\\*"}),
        (LITERAL, None, {"pay-x", "pay-", "*"}),
        (LITERAL, "pay-x", {"pay-x"}),
        (LITERAL, "*", {"*"}),
        (PREFIXED, None, {"pay-*", "p*", "pay-x*", "pay-xx*", "\\*"}),
        (PREFIXED, "pay-", {"pay-*"}),
        (PREFIXED, "pay-x", {"pay-x*"}),
        (MATCH, None, set(PATTERNS)),
        (MATCH, "pay-x", {"pay-x", "*", "pay-*", "p*", "pay-x*"}),
        (MATCH, "q", {"*"}),
        (MATCH, "*", {"*", "\\*"}),
    ],
)
def test_patterns_that_a_filter_matches(pattern_type: AclPatternType, name: str | None, found: set[str]) -> None:
    rules = {text: acl(f"ALLOW READ TOPIC {text}") for text in PATTERNS}
    for kind in (TOPIC, AclResourceType.ANY):
        wanted = AclFilter(kind, name, pattern_type)
        assert {text for text, rule in rules.items() if wanted.matches(rule)} == found
    of_groups = AclFilter(GROUP, name, pattern_type)
    assert not any(of_groups.matches(rule) for rule in rules.values())


def test_the_rest_of_a_filter_is_literal() -> None:
    of_all = acl("ALLOW ALL TOPIC t", "User:*")
    of_one = acl("DENY READ TOPIC t", "User:a", "10.0.0.1")

    def matched(**wanted: object) -> list[bool]:
        return [AclFilter(**wanted).matches(rule) for rule in (of_all, of_one)]  # type: ignore[arg-type]

    assert matched() == [True, True]
    assert matched(principal="User:*") == [True, False]
    assert matched(principal="User:a") == [False, True]
    assert matched(principal="User:A") == [False, False]
    assert matched(host="*") == [True, False]
    assert matched(host="10.0.0.1") == [False, True]
    assert matched(operation=AclOperation.ALL) == [True, False]
    assert matched(operation=AclOperation.READ) == [False, True]
    assert matched(permission=AclPermission.DENY) == [False, True]


@given(st.lists(acls, max_size=8), st.randoms(use_true_random=False))
def test_a_set_is_packed(rules: list[Acl], random: object) -> None:
    packed = Acls(rules)
    assert list(packed) == sorted(set(rules))
    assert len(packed) == len(set(rules))
    random.shuffle(rules)  # type: ignore[attr-defined]
    assert Acls([*rules, *rules]) == packed
    assert hash(Acls(rules)) == hash(packed)
    assert Acls([*rules, acl("DENY READ USER z")]) != packed
    copy = pickle.loads(pickle.dumps(packed))
    assert copy == packed
    assert list(copy) == list(packed)


def test_nodes_are_kafkas() -> None:
    literal, prefixed = acl("ALLOW DESCRIBE_CONFIGS TOPIC pay"), acl("DENY ALL TRANSACTIONAL_ID é*")
    assert acl_path(literal.pattern) == "/kafka-acl/Topic/pay"
    assert acl_path(prefixed.pattern) == "/kafka-acl-extended/prefixed/TransactionalId/é"
    assert json.loads(encode_acls([literal, literal])) == {
        "version": 1,
        "acls": [
            {"principal": "User:alice", "permissionType": "Allow", "operation": "DescribeConfigs", "host": "*"},
        ],
    }
    assert change_notification(literal.pattern) == ("/kafka-acl-changes/acl_changes_", b"TOPIC:pay")
    path, data = change_notification(prefixed.pattern)
    assert path == "/kafka-acl-extended-changes/acl_changes_"
    assert json.loads(data) == {
        "version": 1,
        "resourceType": "TRANSACTIONAL_ID",
        "name": "é",
        "patternType": "PREFIXED",
    }


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_is_stored_is_read(operation: AclOperation) -> None:
    pattern = AclPattern(TOPIC, "t", LITERAL)
    rules = {Acl(pattern, who, "*", operation, AclPermission.DENY) for who in ("User:a", 'User:CN=é,O="x"')}
    assert decode_acls(pattern, encode_acls(rules)) == rules


_NO_ACLS = (b"", b"[]", b'{"acls":[{}]}', b'{"acls":3}', b"\xff", b'{"acls":[7]}', 100_000 * b"[")


@pytest.mark.parametrize("data", _NO_ACLS, ids=range(len(_NO_ACLS)))
def test_what_is_no_list_of_acls(data: bytes) -> None:
    with pytest.raises(Malformed):
        decode_acls(AclPattern(TOPIC, "t", LITERAL), data)


def test_names_that_cannot_be_nodes() -> None:
    assert all(has_node(name) for name in ("t", "*", "a b", "é", "...", "a.b", "x" * 300, "%2F"))
    assert not any(has_node(name) for name in ("", ".", "..", "a/b", "/", "a\0", "\x1f", "\x7f", "\ue000", "\uffff"))
