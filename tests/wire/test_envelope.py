"""Messages between gateway and actor arrive unchanged, whatever names clients use."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.actors.wire.internal import envelope
from muster.placement.mapping.registration import (
    Kind,
    Position,
    Registration,
    RegistrationUpdate,
    SimpleCommit,
    Withdrawal,
)

NAME = st.text(max_size=20)  # any character, including lone surrogates and line ends
MAYBE = st.none() | NAME
NUMBER = st.integers(0, 2**31 - 1)
OFFSET = st.integers(0, 2**63 - 1)
WHOSE = {"group": NAME, "member_id": NAME, "offsets_partition": NUMBER, "epoch": NUMBER, "sequence": OFFSET}
PARTITIONS = st.none() | st.frozensets(st.tuples(NAME, NUMBER), max_size=4)
ROWS = st.lists(st.tuples(NUMBER, OFFSET), min_size=1, max_size=4)
TOPICS = st.lists(st.tuples(NAME, ROWS).map(lambda each: (each[0], *zip(*each[1], strict=True))), min_size=1).map(tuple)
POSITIONS = st.lists(st.tuples(NAME, NUMBER, OFFSET), min_size=1, max_size=4).map(tuple)

REGISTRATION_UPDATES: st.SearchStrategy[RegistrationUpdate] = st.one_of(
    st.builds(
        Registration,
        kind=st.sampled_from(Kind),
        client_id=MAYBE,
        host=NAME,
        generation=st.integers(-1, 2**31 - 1),
        partitions=PARTITIONS,
        principal=MAYBE,
        **WHOSE,
    ),
    st.builds(Withdrawal, **WHOSE),
    st.builds(Position, principal=MAYBE, host=NAME, client_id=MAYBE, topics=TOPICS, is_hint=st.booleans(), **WHOSE),
    st.builds(SimpleCommit, principal=NAME, host=NAME, client_id=MAYBE, connection=NAME, positions=POSITIONS, **WHOSE),
)


@settings(max_examples=200)
@given(NUMBER, NUMBER, st.lists(REGISTRATION_UPDATES, max_size=5).map(tuple), st.booleans())
def test_updates(partition: int, epoch: int, updates: tuple[RegistrationUpdate, ...], snapshot: bool) -> None:
    message = envelope.write_updates(partition, epoch, updates, snapshot=snapshot)
    assert envelope.read_updates(message) == (partition, epoch, updates, snapshot)


@settings(max_examples=100)
@given(NUMBER, NAME, NAME, NAME, st.binary(max_size=40))
def test_a_request_and_who_sent_it(token: int, host: str, connection: str, principal: str, frame: bytes) -> None:
    written = envelope.write_context(host, connection, principal)
    head = envelope.REQUEST_HEAD.pack(envelope.Kind.REQUEST, token, len(written))
    read_token, context, read_frame = envelope.read_request(head + written + frame)
    assert (read_token, read_frame) == (token, frame)
    assert (context.host, context.connection, context.principal) == (host, connection, principal)
