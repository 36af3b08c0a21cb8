from __future__ import annotations

from typing import Any

from muster.gateway.console.model.attribution import GROUPS, REASONS, Attribution, Count


def report(gateway: int, at_s: int, size: int, incarnation: str = "a", **more: Any) -> dict[str, Any]:
    groups = [["g", "t", "assignment", size // 10, size]]
    return {"gateway": gateway, "at_ms": at_s * 1000, "incarnation": incarnation, "groups": groups, **more}


def test_rates_of_several_gateways_are_added() -> None:
    found = Attribution()
    for each in (report(1, 0, 1000), report(2, 0, 500)):
        found.feed(each)
    assert found.rate_of(GROUPS) is None
    for each in (report(1, 10, 2000), report(2, 5, 1000)):
        found.feed(each)
    assert found.group_rates() == {"g": 200.0}
    assert found.sums(GROUPS)["g"] == Count(300, 3000)


def test_a_gateway_that_starts_anew_counts_on() -> None:
    found = Attribution()
    found.feed(report(1, 0, 1000))
    found.feed(report(1, 10, 300, incarnation="b"))
    assert found.sums(GROUPS)["g"].bytes == 1300
    assert found.group_rates() == {}, "what it sent before the restart is not known"
    found.feed(report(1, 20, 400, incarnation="b"))
    assert found.group_rates() == {"g": 10.0}


def test_a_gateway_that_is_gone_has_no_rate_and_keeps_its_sum() -> None:
    found = Attribution()
    for at_s, size in ((0, 0), (10, 1000)):
        found.feed(report(1, at_s, size))
    found.keep_only(["2"])
    assert (found.group_rates(), found.sums(GROUPS)["g"].bytes) == ({}, 1000)


def test_pending_bytes_are_those_of_now() -> None:
    found = Attribution()
    found.feed(report(1, 0, 10, pending=[["t", 1, 50]]))
    found.feed(report(1, 5, 10, pending=[["t", 1, 20]]))
    assert [(row["reason"], row["bytes"]) for row in found.without_group().rows] == [("pending", 20)]


def test_own_readers_are_no_bytes_without_a_group() -> None:
    found = Attribution()
    found.feed(report(1, 0, 900, reasons=[["internal", "t", 1, 500], ["no_group", "t", 1, 100]]))
    assert found.unattributed_share() == 0.1
    assert list(found.sums(REASONS)) == ["internal", "no_group"]


def test_bytes_of_principals_are_added_up_over_gateways() -> None:
    found = Attribution()
    for gateway in (1, 2):
        for at_s, size in ((0, 100), (10, 400)):
            found.feed(report(gateway, at_s, 0, principals=[["User:ann", "t", 1, size], ["", "t", 1, 1]]))
    (first, second) = found.by_principal().rows
    assert (first["principal"], first["bytes"], first["bytes_s"]) == ("User:ann", 800, 60.0)
    assert (second["principal"], second["bytes"]) == ("all others", 2)
    assert found.unattributed_share() is None, "they are no other bytes than those of groups"
