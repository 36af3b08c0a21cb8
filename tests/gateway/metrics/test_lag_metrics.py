"""The lag of groups in /metrics: over real coordinators and logs, and at the bound."""

from __future__ import annotations

from muster.gateway.lag.groups import GroupLag, PartitionLag, WithoutCommit
from muster.gateway.lag.metrics import LagScrape
from muster.gateway.metrics.exposition import expose
from tests.gateway.group_client import Fresh, Member, delete, find
from tests.gateway.http.test_http_lag import assignment, produce
from tests.gateway.metrics.test_group_metrics import Series, metrics, scraped
from tests.gateway.serving import Serving

PROPERTIES = {"group.initial.rebalance.delay.ms": "0"}


def of(series: Series, **labels: str) -> float | None:
    return series.get(frozenset(labels.items()))


def test_from_the_first_record_behind_to_the_end_of_the_group(full: Serving, fresh: Fresh) -> None:
    topic, group = full.create(fresh("t"), 2), fresh("g")
    find(full.client, 4, group)
    produce(full, topic, 0, 5)
    produce(full, topic, 1, 2)
    member = Member(full.client, group)
    member.commit((topic, 0, 1), (topic, 1, 2))
    first, second = ({"group": group, "topic": topic.name, "partition": str(number)} for number in (0, 1))
    before, after = metrics(full), metrics(full)
    for found in (before, after):
        assert of(found["muster_group_lag_messages"], **first) == 4
        assert of(found["muster_group_lag_messages"], **second) == 0
        assert of(found["muster_group_lag_seconds"], **second) == 0
        assert of(found["muster_group_total_lag_messages"], group=group) == 4
        assert of(found["muster_group_partitions_behind"], group=group) == 1
        age_s = of(found["muster_group_lag_seconds"], **first)
        assert age_s is not None
        assert of(found["muster_group_max_lag_seconds"], group=group) == age_s
    ages_s = [of(found["muster_group_lag_seconds"], **first) or 0 for found in (before, after)]
    assert 0 < ages_s[0] <= ages_s[1]

    member.commit((topic, 0, 5))
    assert of(metrics(full)["muster_group_max_lag_seconds"], group=group) == 0
    delete(full.client, group)
    gone = metrics(full)
    assert not [
        (name, labels)
        for name, series in gone.items()
        for labels in series
        if "lag" in name and ("group", group) in labels
    ]


def test_partitions_without_a_commit_until_the_first_one(full: Serving, fresh: Fresh) -> None:
    topic, group = full.create(fresh("t"), 3), fresh("g")
    find(full.client, 4, group)
    produce(full, topic, 0, 5)
    produce(full, topic, 1, 2)
    member = Member(full.connect(), group)
    member.join()
    member.sync({member.id: assignment(topic, 0, 1, 2)})
    found = metrics(full)
    assert of(found["muster_group_partitions_without_commit"], group=group) == 2
    assert of(found["muster_group_total_lag_messages"], group=group) is None
    member.commit((topic, 0, 1))
    found = metrics(full)
    assert of(found["muster_group_partitions_without_commit"], group=group) == 1
    assert of(found["muster_group_total_lag_messages"], group=group) == 4
    member.commit((topic, 1, 0))
    assert of(metrics(full)["muster_group_partitions_without_commit"], group=group) == 0
    member.leave()
    delete(full.client, group)
    assert of(metrics(full)["muster_group_partitions_without_commit"], group=group) is None


def test_partitions_without_a_commit_are_not_counted_while_a_log_does_not_respond() -> None:
    found = [WithoutCommit("t", 0, 7), WithoutCommit("t", 1, None)]
    for is_partial, expected in ((False, [1.0]), (True, [])):
        scrape = LagScrape([GroupLag("g", "Stable", "classic", "consumer", 1, [], found)], 5, is_partial)
        series = scraped(expose(1, [scrape.write]).decode())
        assert list(series.get("muster_group_partitions_without_commit", {}).values()) == expected


def lags(*sizes: int) -> list[GroupLag]:
    """Return groups g0, g1...: each partition has a lag of 1, and is as many seconds behind as its number."""
    partitions = [[PartitionLag("t", each, 1, float(each)) for each in range(size)] for size in sizes]
    return [GroupLag(f"g{at}", "Empty", "classic", "", 0, of_group) for at, of_group in enumerate(partitions)]


def test_partitions_beyond_the_bound_count_in_their_group() -> None:
    found = scraped(expose(1, [LagScrape(lags(3, 4, 2), 5).write]).decode())
    shown = [dict(labels)["group"] for labels in found["muster_group_lag_messages"]]
    assert sorted(shown) == ["g0"] * 3 + ["g1"] * 2
    totals = {dict(labels)["group"]: value for labels, value in found["muster_group_total_lag_messages"].items()}
    assert totals == {"g0": 3, "g1": 4, "g2": 2}
    assert found["muster_folded_lag_series"] == {frozenset(): 4}


def test_a_sum_that_would_be_too_small_is_left_out_while_a_log_does_not_respond() -> None:
    unknown = GroupLag("g", "Empty", "classic", "", 0, [PartitionLag("t", 0, 1, 1.0), PartitionLag("t", 1, None, None)])
    for is_partial, sums in ((False, 2), (True, 1)):  # without a topic, a partition is unknown for good
        found = scraped(expose(1, [LagScrape([unknown, *lags(1)], 5, is_partial).write]).decode())
        for name in (
            "muster_group_total_lag_messages",
            "muster_group_max_lag_seconds",
            "muster_group_partitions_behind",
        ):
            assert len(found[name]) == sums, name
        assert len(found["muster_group_lag_messages"]) == 2


def test_the_largest_age_is_left_out_while_append_times_are_missing() -> None:
    late = GroupLag("g", "Empty", "classic", "", 0, [PartitionLag("t", 0, 1, 1.0), PartitionLag("t", 1, 7, None)])
    for is_partial, ages in ((False, 1), (True, 0)):
        found = scraped(expose(1, [LagScrape([late], 5, is_partial).write]).decode())
        assert list(found["muster_group_total_lag_messages"].values()) == [8]
        assert len(found.get("muster_group_max_lag_seconds", {})) == ages


def test_groups_whose_names_are_hidden_have_their_sum_and_their_largest_age() -> None:
    hide = lambda labels: ',group="other"' if "group" in labels else labels  # noqa: E731
    text = expose(1, [LagScrape(lags(3, 4), 100).write], hide=hide)
    found = scraped(text.decode())
    assert found["muster_group_total_lag_messages"] == {frozenset({("group", "other")}): 7}
    assert found["muster_group_max_lag_seconds"] == {frozenset({("group", "other")}): 3}
