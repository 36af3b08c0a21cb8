"""``GET /v1/rebalances``, with real coordinators."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from muster.actors.tables.rebalances import encode
from muster.gateway.http.callers import Caller
from muster.gateway.http.events import newest
from tests.gateway.serving import Serving
from tests.tables.rebalances import entry

EVERYONE = Caller("User:ann", "127.0.0.1", may_all=True)


class Sees(Caller):
    """Sees one group and no topic."""

    def sees_group(self, group: str) -> bool:
        return group == "mine"

    def sees_topic(self, topic: str) -> bool:
        return False


def response(*numbers: int, more: bool = False, group: str = "billing") -> dict[str, Any]:
    return {"entries": [encode(entry(number, group=group)).decode() for number in numbers], "more": more}


def test_the_last_of_all_coordinators_newest_first(full: Serving) -> None:
    assert full.actors is not None
    for partition in range(3):
        assert full.run(full.gateway.coordinator_ready(partition, 10))

    async def keep() -> None:
        assert full.actors is not None
        for number in range(1, 7):
            full.actors.histories[number % 3].keep(replace(entry(number), offsets_partition=number % 3))

    full.run(keep())
    for query, wanted in (
        ("", [6, 5, 4, 3, 2, 1]),
        ("?limit=2", [6, 5]),
        (f"?since_ms={entry(4).ended_ms}", [6, 5, 4]),
    ):
        status, text = full.http(f"/v1/rebalances{query}")
        body = json.loads(text)
        assert (status, [each["number"] for each in body["entries"]]) == (200, wanted)
        assert (body["partial"], body["missing_partitions"], body["more"]) == (False, [], query == "?limit=2")
    assert body["entries"][0] == replace(entry(6), offsets_partition=0).to_json()


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "since_ms=x", "since_ms=-1", "since_ms=" + "9" * 16])
def test_a_wrong_query_is_400(full: Serving, query: str) -> None:
    assert full.http(f"/v1/rebalances?{query}")[0] == 400


def test_no_gap_is_shown_where_a_coordinator_left_entries_out() -> None:
    entries, more = newest([response(9, 8, more=True), response(10, 7, 6)], 100, EVERYONE)
    assert ([each["number"] for each in entries], more) == ([10, 9, 8], True)


def test_rows_and_topics_that_the_caller_may_not_describe_are_left_out() -> None:
    caller = Sees("User:ann", "127.0.0.1", may_all=False)
    entries, more = newest([response(3, 2), response(1, group="mine")], 1, caller)
    assert ([(each["group"], each["partitions"]) for each in entries], more) == ([("mine", [])], False)
