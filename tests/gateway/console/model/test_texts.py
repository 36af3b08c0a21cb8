from __future__ import annotations

import pytest

from muster.gateway.console.model import commands, text
from muster.gateway.console.model.commands import Target
from muster.gateway.console.model.links import group, is_local, link

TARGET = Target("h:9092", "http://h:9404")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "–"),  # noqa: RUF001
        (0, "0 s"),
        (0.0126, "13\xa0ms"),
        (0.9999, "1.0\xa0s"),
        (3.21, "3.2\xa0s"),
        (9.96, "10\xa0s"),
        (59.6, "1\xa0min"),
        (310, "5\xa0min 10\xa0s"),
        (11100, "3\xa0h 5\xa0min"),
        (187200, "2\xa0d 4\xa0h"),
    ],
)
def test_durations(value: float | None, expected: str) -> None:
    assert text.duration(value) == expected


def test_sizes_and_counts() -> None:
    assert [text.size(each) for each in (0, 1023, 1024, 1536, 10**9)] == [
        "0\xa0B",
        "1023\xa0B",
        "1.00\xa0KiB",
        "1.50\xa0KiB",
        "954\xa0MiB",
    ]
    assert [text.short_count(each) for each in (950, 999.9, 12_345, 4_060_000)] == ["950", "1k", "12.3k", "4.06M"]
    assert [text.share(each) for each in (0, 0.00001, 0.004, 0.5)] == [
        "0\xa0%",
        "<\u202f0.1\xa0%",
        "0.4\xa0%",
        "50\xa0%",
    ]


def test_lists_and_ranges() -> None:
    assert text.listed(["a", "b", "c", "d"]) == "a, b, c and 1 more"
    assert text.ranges([3, 1, 2, 7]) == "1–3, 7"  # noqa: RUF001
    cut = text.shortened("x" * 100, 21)
    assert (len(cut), cut[13]) == (21, "…")


def test_commands_quote_what_clients_call_themselves() -> None:
    assert commands.evict("g; rm -rf /", "$(id)", Target()) == "muster groups evict 'g; rm -rf /' '$(id)'"
    assert commands.history("--help", Target()) == "muster groups history -- --help"
    command = commands.reset("g", {"time_ms": 1_700_000_000_000}, ["t:0,1"], TARGET, lambda ms: f"AT-{ms}")
    assert command == (
        "muster groups reset-offsets g --to-datetime AT-1700000000000 --topic t:0,1 --execute --bootstrap-server h:9092"
    )


def test_a_fault_as_a_command() -> None:
    fault = {"action": "error", "api": "Heartbeat", "error": "NOT_COORDINATOR", "when": {"probability": 0.1, "seed": 7}}
    assert commands.fault(fault, TARGET) == (
        "muster fault inject error --api Heartbeat --error NOT_COORDINATOR --probability 0.1 --seed 7 --http http://h:9404"
    )


def test_links_lead_to_this_console_only() -> None:
    assert link("/groups", q="a b", state="", desc=None) == "/groups?q=a+b"
    assert group("<&>/?") == "/group?name=%3C%26%3E%2F%3F"
    assert is_local("/group?name=x")
    assert not any(map(is_local, ("//evil", "/\\evil", "https://evil", "", "/a\nb")))
