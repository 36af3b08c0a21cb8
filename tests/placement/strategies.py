"""Registrations, for Hypothesis and for tests by hand."""

from __future__ import annotations

from hypothesis import strategies as st

from muster.placement.hashing import partition_for
from muster.placement.mapping.registration import Kind, Registration

OFFSETS_PARTITIONS = 4
GROUPS = ("billing", "dashboard", "archive", "a:b/c", "")


def partition_of(group: str) -> int:
    return partition_for(group, OFFSETS_PARTITIONS)


def registration(group: str, member: str = "m-1", **changes: object) -> Registration:
    """Return a member of the group, as sent by its coordinator of epoch 1."""
    fields: dict[str, object] = {
        "kind": Kind.MEMBER,
        "client_id": "rdkafka",
        "host": "10.0.0.1",
        "generation": 1,
        "partitions": frozenset({("flights", 0), ("flights", 1)}),
        "offsets_partition": partition_of(group),
        "epoch": 1,
        "sequence": 1,
    }
    return Registration(group=group, member_id=member, **(fields | changes))  # type: ignore[arg-type]


TEXTS = st.one_of(st.text(), st.sampled_from(["", ".", "..", "/", "a/b", "%", "%~", "x" * 1000, "é" * 200, "\0", "-"]))

registrations = st.builds(
    registration,
    group=st.sampled_from(GROUPS),
    member=st.sampled_from(["m-1", "m-2", "m-3"]),
    client_id=st.sampled_from([None, "", "rdkafka", "a/b"]),
    host=st.sampled_from(["10.0.0.1", "10.0.0.2", "2001:db8::1"]),
    generation=st.integers(0, 3),
    partitions=st.none() | st.frozensets(st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 2)), max_size=3),
    epoch=st.integers(0, 2),
    sequence=st.integers(0, 3),
)
