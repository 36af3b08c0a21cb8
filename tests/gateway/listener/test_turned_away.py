"""Clients of before Kafka 2.1, and others whose requests are not served: named, with what helps, and bounded."""

from __future__ import annotations

import logging

import pytest

from muster.actors.wire.kafka import codec
from muster.gateway.listener.turned_away import FORGET_MS, MAX_CLIENTS, MAX_PER_HOST, TurnedAwayClients
from tests.gateway.serving import Serving

FETCH, SERVED = 1, range(4, 19)


def old_fetch(client_id: str | None, version: int = 3) -> bytes:
    """Return a Fetch as sarama sends it by default, and so Telegraf."""
    name = b"\xff\xff" if client_id is None else len(client_id.encode()).to_bytes(2, "big") + client_id.encode()
    return (
        FETCH.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + bytes(4) + name + b"\xff" * 12 + bytes(4)
    )


def test_each_client_is_in_the_log_once_with_what_helps(served: Serving, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    for client_id in ("sarama", "Telegraf", "sarama", None):
        with served.connect() as client:
            client.send(old_fetch(client_id))
            assert client.is_closed()
    lines = [line for line in caplog.messages if "is not served" in line]
    assert [line.partition("closed: ")[2].partition(";")[0] for line in lines] == [
        f"Fetch version 3 of client {client_id!r} is not served, 4 to 18 are"
        for client_id in ("sarama", "Telegraf", None)
    ]
    assert all("config.Version = sarama.V2_1_0_0" in line for line in lines)
    sarama = next(row for row in served.gateway.turned_away.rows() if row["client_id"] == "sarama")
    assert (sarama["client_id"], sarama["host"], sarama["api"]) == ("sarama", "127.0.0.1", "Fetch")
    assert (sarama["version"], sarama["times"]) == (3, 2)


def test_what_helps_depends_on_what_is_not_served() -> None:
    known = TurnedAwayClients()

    def said(frame: bytes, served: range | None = SERVED) -> str:
        return str(known.refuse(frame, "h", 0, served))

    assert "Kafka 2.1 or later" in said(old_fetch("c", 3))
    assert "ApiVersions" in said(old_fetch("c", 99))
    assert "docs/compatibility.md" in said((53).to_bytes(2, "big") + old_fetch("c")[2:], None)
    assert said((999).to_bytes(2, "big") + old_fetch("c")[2:], None) == "api key 999 version 3 is not served"
    assert said(old_fetch("c", -1)) == "Fetch version -1 is not served"
    assert [row["api"] for row in known.rows()] == [codec.api_name(53), "Fetch"]


@pytest.mark.parametrize("cut", range(len(old_fetch("a client"))))
def test_a_cut_frame_is_no_problem(cut: int) -> None:
    known = TurnedAwayClients()
    known.refuse(old_fetch("a client")[:cut], "h", 0, SERVED)
    assert len(known.rows()) <= 1


def test_hostile_names_are_bounded_and_hide_no_client_that_tries_again() -> None:
    known = TurnedAwayClients()

    def news(client_id: str, host: str, now_ms: int = 0) -> bool | None:
        return known.refuse(old_fetch(client_id), host, now_ms, SERVED).complaint.is_news

    def clients() -> set[tuple[object, object]]:
        return {(row["host"], row["client_id"]) for row in known.rows()}

    assert [news("x" * 5_000 + str(n), "bad") for n in range(3)] == [True, False, False], (
        "their beginnings are the same"
    )
    assert [news("Telegraf", "bad") for _ in range(2)] == [True, False]
    said = [news(str(n), "bad") for n in range(1_000)]
    assert (said.count(True), said.count(None)) == (MAX_PER_HOST - 2, 1_002 - MAX_PER_HOST)
    assert len(known.rows()) == MAX_PER_HOST
    for n in range(1_000):
        news("c", f"host {n}")
    assert len(known.rows()) == MAX_CLIENTS
    assert ("bad", "Telegraf") in clients()
    for n in range(MAX_CLIENTS):
        assert news(f"c {n}", f"host {n}", n) is None
        news(f"c {n}", f"host {n}", n)
    assert news("new", "new", 5) is None
    assert ("new", "new") not in clients()
    news("new", "new", FORGET_MS)
    assert ("new", "new") in clients()
    assert ("bad", "x" * 100) not in clients(), "it was not seen for a day"
    assert len(known.rows()) == MAX_CLIENTS
