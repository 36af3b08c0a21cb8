"""Clients' view of a fault (tests/hosts/seen.py), out of journals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.chaos.journal import Journal, now_s
from tests.hosts.seen import COMMIT, FETCH, HEARTBEAT, PRODUCE, Gaps, Seen, longest_gap_s


@pytest.mark.parametrize(
    ("times", "gap_s"),
    [
        ([], 0.0),
        ([11.0, 12.0, 15.0, 19.0], 4.0),
        ([1.0, 11.0, 19.0, 90.0], 71.0),  # open when the span began, and when it ended
        ([1.0, 30.0], 29.0),
        ([1.0, 12.0, 13.0], 11.0),
        ([12.0, 13.0], 7.0),  # it has not ended
        ([1.0, 9.0, 9.5, 10.1, 20.5, 80.0], 10.4),
    ],
)
def test_the_longest_gap_is_one_that_overlaps_the_span(times: list[float], gap_s: float) -> None:
    assert longest_gap_s(times, 10.0, 20.0) == pytest.approx(gap_s)


def test_successes_are_read_on_from_journals(tmp_path: Path) -> None:
    began_s = now_s()
    producer, member = Journal(tmp_path / "producer.1.jsonl"), Journal(tmp_path / "member.1.jsonl")
    fields = {"library": "kafka-python", "idempotent": True, "mode": "manual"}
    producer.write("start", role="producer", group="", **fields)
    member.write("start", role="consumer", group="g", **fields)
    seen = Seen(tmp_path)
    assert not seen.all_since(began_s, 1)
    producer.write("acked", records=[("t", 0, 7, "producer.1/t-0:0")])
    member.write("assigned", generation=4, member="m", partitions=[("t", 0)])
    member.write("read", topic="t", partition=0, records=[(7, "producer.1/t-0:0")])
    member.write("heartbeat")
    with member.call("commit", 30.0, generation=4, offsets=[("t", 0, 8)]):
        pass
    with pytest.raises(TimeoutError), member.call("commit", 30.0, generation=4, offsets=[("t", 1, 8)]):
        raise TimeoutError
    assert seen.all_since(began_s, 4)
    assert not seen.all_since(now_s(), 4)
    (gaps,) = seen.gaps(began_s, now_s()).values()
    assert gaps.longest_s.keys() == {PRODUCE, FETCH, COMMIT, HEARTBEAT}
    assert gaps.rebalances == 1


def test_a_group_is_not_blamed_for_a_producer_of_another_library(tmp_path: Path) -> None:
    began_s = now_s()
    for library, topic in (("confluent", "orders"), ("kafka-python", "clicks")):
        producer = Journal(tmp_path / f"{library}-producer.1.jsonl")
        producer.write("start", role="producer", group="", library=library)
        producer.write("acked", records=[(topic, 0, 7, "1")])
        member = Journal(tmp_path / f"{library}-0.1.jsonl")
        member.write("start", role="consumer", group=library, library=library)
        for read in ("orders", "clicks"):
            member.write("read", topic=read, partition=0, records=[(7, "1")])
    until_s = now_s() + 5
    with (tmp_path / "confluent-0.1.jsonl").open("a") as journal:
        journal.write(json.dumps({"t": until_s, "e": "read", "topic": "orders", "partition": 0, "records": []}) + "\n")
    gaps = Seen(tmp_path).gaps(began_s, until_s + 2)
    assert gaps["kafka-python"].longest_s[FETCH] == pytest.approx(7, abs=0.5)
    assert gaps["confluent"].longest_s[FETCH] == pytest.approx(5, abs=0.5), "clicks have waited for 7 s"


def test_heartbeats_are_compared_with_their_interval() -> None:
    assert Gaps({FETCH: 0.3, HEARTBEAT: 1.2}, 0).worst_s == pytest.approx(0.3)
    assert Gaps({FETCH: 0.3, HEARTBEAT: 1.6}, 0).worst_s == pytest.approx(0.6)
