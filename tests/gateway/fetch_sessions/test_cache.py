"""The rules of fetch sessions, without a gateway (KIP-227)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

import pytest

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.fetch_sessions.cache import FetchSessions, SessionError, SessionRequest
from muster.gateway.fetch_sessions.contexts import FetchContext
from muster.gateway.fetch_sessions.partition import CachedPartition, Key, Result
from muster.gateway.fetch_sessions.session import FINAL_EPOCH, INITIAL_EPOCH, INVALID_SESSION_ID, next_epoch

EVICTION_MS = 1_000
NOTHING = Result(is_error=False, high_watermark=5, log_start_offset=0, has_records=False)
FAILED = Result(is_error=True, high_watermark=-1, log_start_offset=-1, has_records=False)


def key(partition: int) -> Key:
    return ("t", None, partition)


def new_sessions(slots: int = 2) -> FetchSessions:
    return FetchSessions(slots=slots, eviction_ms=EVICTION_MS, new_id=count(1).__next__)


def request(
    session_id: int,
    epoch: int,
    partitions: Iterable[int] = (),
    forgotten: Iterable[int] = (),
    *,
    ids: bool = False,
    offset: int = 0,
) -> SessionRequest:
    cached = [CachedPartition(key(partition), offset, 100) for partition in partitions]
    return SessionRequest(session_id, epoch, cached, [key(partition) for partition in forgotten], ids)


def respond(context: FetchContext, **results: Result) -> tuple[list[int], int]:
    """Return the partitions that the response has, and its session id; ``p1`` is the result of partition 1."""
    assert context.begin_response() is ErrorCode.none
    partitions = list(context.partitions)
    found = {each.key[2]: results.get(f"p{each.key[2]}", NOTHING) for each in partitions}
    return [each.key[2] for each in partitions if context.includes(each, found[each.key[2]])], context.session_id()


def create(sessions: FetchSessions, partitions: Iterable[int], now_ms: int = 0) -> int:
    context = sessions.open(request(INVALID_SESSION_ID, INITIAL_EPOCH, partitions), now_ms)
    return respond(context)[1]


def code_of(sessions: FetchSessions, wanted: SessionRequest) -> ErrorCode:
    with pytest.raises(SessionError) as failed:
        sessions.open(wanted, 0)
    return failed.value.code


def test_a_session_is_created_with_the_response() -> None:
    sessions = new_sessions()
    context = sessions.open(request(0, INITIAL_EPOCH, [1, 2]), 0)
    assert len(sessions) == 0
    assert respond(context, p2=FAILED) == ([1, 2], 1)
    assert (len(sessions), sessions.partitions) == (1, 2)


def test_without_a_session() -> None:
    sessions = new_sessions()
    assert respond(sessions.open(request(0, FINAL_EPOCH, [1, 2]), 0)) == ([1, 2], INVALID_SESSION_ID)
    assert len(sessions) == 0


@pytest.mark.parametrize("epoch", [INITIAL_EPOCH, FINAL_EPOCH])
def test_a_full_request_ends_the_session_that_it_names(epoch: int) -> None:
    sessions = new_sessions()
    first = create(sessions, [1])
    sessions.open(request(first, epoch, [1]), 0)
    assert (len(sessions), sessions.partitions) == (0, 0)
    assert code_of(sessions, request(first, 1)) is ErrorCode.fetch_session_id_not_found


def test_errors() -> None:
    sessions = new_sessions()
    known = create(sessions, [1])
    assert code_of(sessions, request(0, 1)) is ErrorCode.fetch_session_id_not_found
    assert code_of(sessions, request(known, 2)) is ErrorCode.invalid_fetch_session_epoch
    assert code_of(sessions, request(known, 1, ids=True)) is ErrorCode.fetch_session_topic_id_error
    assert respond(sessions.open(request(known, 1), 0)) == ([], known), "no error has changed it"
    assert code_of(sessions, request(known, 1)) is ErrorCode.invalid_fetch_session_epoch


def test_only_news_are_sent() -> None:
    sessions = new_sessions()
    known = create(sessions, [1, 2, 3])
    epochs = count(1)

    def following(**results: Result) -> list[int]:
        return respond(sessions.open(request(known, next(epochs)), 0), **results)[0]

    assert following() == []
    assert following(p2=NOTHING._replace(high_watermark=6)) == [2]
    assert following(p2=NOTHING._replace(high_watermark=6)) == []
    assert following(p3=NOTHING._replace(log_start_offset=1)) == [2, 3]
    assert following() == [3]
    assert following(p1=NOTHING._replace(leads_away=True)) == [1]
    assert following(p1=NOTHING._replace(leads_away=True)) == [1]
    assert following(p1=FAILED, p2=NOTHING._replace(diverges=True)) == [1, 2]
    assert following(p1=FAILED) == [1, 2], "what was in error or diverged is sent again"
    assert following() == [1]
    assert following() == []


def test_partitions_with_records_are_served_last() -> None:
    sessions = new_sessions()
    known = create(sessions, [1, 2, 3])
    records = NOTHING._replace(has_records=True)
    assert respond(sessions.open(request(known, 1), 0), p1=records, p2=records)[0] == [1, 2]
    context = sessions.open(request(known, 2), 0)
    assert [each.key[2] for each in context.partitions] == [3, 1, 2]


def test_partitions_are_added_changed_and_forgotten() -> None:
    sessions = new_sessions()
    known = create(sessions, [1, 2])
    context = sessions.open(request(known, 1, [2, 3], [1, 9], offset=7), 0)
    assert {each.key[2]: each.fetch_offset for each in context.partitions} == {2: 7, 3: 7}
    assert respond(context)[0] == [3], "the client has never been sent anything of it"
    assert sessions.partitions == 2


def test_an_empty_session_ends() -> None:
    sessions = new_sessions()
    known = create(sessions, [1])
    assert respond(sessions.open(request(known, 1, [], [1]), 0)) == ([], INVALID_SESSION_ID)
    assert (len(sessions), sessions.partitions) == (0, 0)


def test_a_response_that_another_request_has_overtaken() -> None:
    sessions = new_sessions()
    known = create(sessions, [1])
    slow = sessions.open(request(known, 1), 0)
    assert respond(sessions.open(request(known, 2), 0)) == ([], known)
    assert slow.begin_response() is ErrorCode.invalid_fetch_session_epoch


def test_epochs_wrap() -> None:
    assert [next_epoch(epoch) for epoch in (0, 1, 2**31 - 2, 2**31 - 1, -1)] == [1, 2, 2**31 - 1, 1, -1]


def test_ids_in_use_are_not_given_again() -> None:
    drawn = iter([5, 5, 6])
    sessions = FetchSessions(slots=2, eviction_ms=EVICTION_MS, new_id=drawn.__next__)
    assert [create(sessions, [1]), create(sessions, [1])] == [5, 6]


class TestEviction:
    def test_a_new_session_finds_no_place(self) -> None:
        sessions = new_sessions()
        kept = [create(sessions, [1]), create(sessions, [1])]
        assert create(sessions, range(9), EVICTION_MS) == INVALID_SESSION_ID
        assert all(sessions.get(each) for each in kept)
        assert sessions.evictions == 0

    def test_one_that_was_not_used_gives_way(self) -> None:
        sessions = new_sessions()
        idle, used = create(sessions, [1, 2, 3]), create(sessions, [1])
        sessions.open(request(used, 1), 500)
        created = create(sessions, [1], EVICTION_MS + 1)
        assert (sessions.get(idle), sessions.get(used) is None, created) == (None, False, 3)
        assert (sessions.evictions, sessions.partitions) == (1, 2)

    def test_an_old_smaller_one_gives_way(self) -> None:
        sessions = new_sessions(3)
        small, large, young = create(sessions, [1, 2]), create(sessions, [1, 2, 3, 4]), create(sessions, [1], 1_500)
        for each in (small, large, young):
            sessions.open(request(each, 1), 1_600)
        assert create(sessions, [1, 2], 1_700) == INVALID_SESSION_ID, "it is not larger"
        assert create(sessions, [1, 2, 3], 1_700) != INVALID_SESSION_ID
        assert sessions.get(small) is None
        assert sessions.get(young) is not None

    def test_its_size_is_that_of_its_last_use(self) -> None:
        sessions = new_sessions(1)
        only = create(sessions, [1])
        for epoch, partitions in ((1, [2, 3]), (2, [])):
            sessions.open(request(only, epoch, partitions), 1_100)
        assert create(sessions, [1, 2, 3], 1_200) == INVALID_SESSION_ID
        sessions.open(request(only, 3, [], [2, 3]), 1_200)
        assert create(sessions, [1, 2], 1_300) != INVALID_SESSION_ID
        assert (sessions.get(only), sessions.partitions) == (None, 2)

    def test_no_slots(self) -> None:
        assert create(new_sessions(0), [1], 9_999) == INVALID_SESSION_ID
