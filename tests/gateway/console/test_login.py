from __future__ import annotations

import pytest

from muster.gateway.console.login import LASTS_S, MAX_SESSIONS, UNUSED_S, Session, Sessions, basic, bearer


def test_a_session_is_found_by_its_id_only() -> None:
    sessions = Sessions()
    key = sessions.open(basic("ann", "secret"), "ann")
    found = sessions.with_id(key)
    assert found is not None
    assert found.user == "ann"
    assert "secret" not in repr(found)
    assert found.authorization not in repr(found)
    assert sessions.with_id(key[:-1]) is None
    sessions.close(key)
    assert sessions.with_id(key) is None


def test_a_session_ends() -> None:
    session = Session("Basic x", "ann", began_s=0.0, used_s=LASTS_S)
    assert not session.has_ended(LASTS_S)
    assert session.has_ended(LASTS_S + 1)
    assert Session("Basic x", "ann", 0.0, 0.0).has_ended(UNUSED_S + 1)


def test_sessions_are_bounded() -> None:
    sessions = Sessions()
    first = sessions.open("Basic x", "first")
    keys = [sessions.open("Basic x", "ann") for _ in range(MAX_SESSIONS)]
    assert sessions.with_id(first) is None
    assert sessions.with_id(keys[-1]) is not None


def test_credentials_cannot_break_the_header() -> None:
    assert basic("ann", "s:ecret") == "Basic YW5uOnM6ZWNyZXQ="
    assert bearer("abc") == "Bearer abc"
    for make in (lambda: basic("a:b", "c"), lambda: basic("a\r\nX: y", ""), lambda: bearer("a b"), lambda: bearer("é")):
        with pytest.raises(ValueError, match=r"cannot|neither"):
            make()
