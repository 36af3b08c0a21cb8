"""ACLs for tests, as short as they are in a table; and for Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from muster.placement.security.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSIONS,
    Acl,
    AclOperation,
    AclPattern,
    AclPatternType,
    AclPermission,
    AclResourceType,
)

ALICE, BOB = "User:alice", "User:bob"
HOST, OTHER_HOST = "10.0.0.1", "10.0.0.2"


def acl(text: str, principal: str = ALICE, host: str = "*") -> Acl:
    """``ALLOW READ TOPIC t`` or ``DENY ALL GROUP g*``, which is the prefix ``g``; ``\\*`` for the character."""
    permission, operation, resource_type, name = text.split(" ", 3)
    is_prefix = len(name) > 1 and name.endswith("*")
    pattern = AclPattern(
        AclResourceType[resource_type],
        name.removesuffix("*").replace("\\", "*") if is_prefix else name,
        AclPatternType.PREFIXED if is_prefix else AclPatternType.LITERAL,
    )
    return Acl(pattern, principal, host, AclOperation[operation], AclPermission[permission])


NAMES = ("a", "ab", "abc", "b", "*", "*x", CLUSTER_NAME, "A", "é")
PRINCIPALS = (ALICE, BOB, "User:*", "Group:*", "User:Alice")
HOSTS = (HOST, OTHER_HOST, "*")

patterns = st.builds(
    AclPattern,
    st.sampled_from((AclResourceType.TOPIC, AclResourceType.GROUP)),
    st.sampled_from(NAMES),
    st.sampled_from(PATTERN_TYPES),
)
acls = st.builds(
    Acl,
    patterns,
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from(PERMISSIONS),
)
