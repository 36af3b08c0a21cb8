"""Groups in /metrics: their life over real sockets, scraped over HTTP, read by Prometheus' own parsers."""

from __future__ import annotations

import asyncio
import json
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from muster.actors.offsets.metrics import REBALANCE_BUCKETS_MS, GroupRow, Snapshot
from muster.actors.tables.spool import Sample
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.attribution.account import Account
from muster.gateway.listener.server import GatewayServer
from muster.gateway.metrics.exposition import expose
from muster.gateway.metrics.gateway import GatewayMetrics
from muster.gateway.metrics.groups import STATES, Scrape, exposed_here
from muster.placement.view import OFFSETS_TOPIC, UNDO_PREFIX, Broker, ClusterView, Endpoint, Topic
from tests.attribution.bench import Sink
from tests.gateway.group_client import OFFSET_DELETE, Fresh, Member, delete, find
from tests.gateway.serving import Serving

PROPERTIES = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "50"}

Series = dict[frozenset[tuple[str, str]], float]


def scraped(text: str, parse: Callable[[str], Iterable[Any]] = parse_text) -> dict[str, Series]:
    """Sample name -> labels without ``gateway`` -> value; a duplicate series fails."""
    found: defaultdict[str, Series] = defaultdict(dict)
    for family in parse(text):
        for sample in family.samples:
            labels = frozenset((name, value) for name, value in sample.labels.items() if name != "gateway")
            assert labels not in found[sample.name], sample
            found[sample.name][labels] = sample.value
    return found


def metrics(full: Serving) -> dict[str, Series]:
    status, text = full.http("/metrics")
    assert status == 200
    return scraped(text)


def of_group(series: dict[str, Series], group: str) -> dict[str, Any]:
    """All samples of the group, by name without prefix; by the other label where there is one."""
    said: dict[str, Any] = {}
    for name, values in series.items():
        for labels, value in values.items():
            others = dict(labels)
            if others.pop("group", None) == group and not name.startswith(("muster_group_fetch", "muster_group_lag")):
                short = name.removeprefix("muster_group_").removesuffix("_total")
                if others:
                    said.setdefault(short, {})[next(iter(others.values()))] = value
                else:
                    said[short] = value
    return said


def assignment(topic: str, *partitions: int) -> bytes:
    """ConsumerProtocolAssignment, version 0."""
    name = topic.encode()
    body = struct.pack(f">hih{len(name)}si{len(partitions)}i", 0, 1, len(name), name, len(partitions), *partitions)
    return body + struct.pack(">i", 0)


def stable_member(full: Serving, group: str, assigned: bytes = b"", **changes: Any) -> Member:
    """Join as the only member of a group, which is in the log then."""
    member = Member(full.connect(), group)
    assert member.join(**changes).error_code is ErrorCode.none
    assert member.sync({member.id: assigned}).error_code is ErrorCode.none
    return member


def group_in(series: dict[str, Series], group: str) -> bool:
    return frozenset({("group", group)}) in series.get("muster_group_members", {})


def states(now: str) -> dict[str, float]:
    return {state: float(state == now) for state in STATES}


@pytest.fixture
def topic(full: Serving, fresh: Fresh) -> Topic:
    return full.create(fresh("t"), 4)


def test_the_life_of_a_group_in_numbers(full: Serving, fresh: Fresh, topic: Topic) -> None:
    group = fresh("g")
    find(full.client, 4, group)
    first, second = (Member(full.connect(name), group) for name in ("one", "two"))
    first.join()
    until(full, lambda series: group_in(series, group))  # the log has it
    joined = of_group(metrics(full), group)
    assert joined["state"] == states("CompletingRebalance")
    assert joined["rebalance_running_seconds"] >= 0
    assert (joined["members"], joined["generation"], joined["pending_members"]) == (1, 1, 0)
    assert (joined["rebalances_started"], joined["rebalances_completed"]) == ({"member joined": 1}, 0)

    first.sync({first.id: assignment(topic.name, 0, 1, 2)})
    second.request_join()
    assert second.joined().error_code is ErrorCode.member_id_required
    assert of_group(metrics(full), group)["pending_members"] == 1
    second.request_join()
    while first.heartbeat() is not ErrorCode.rebalance_in_progress:
        pass
    preparing = of_group(metrics(full), group)
    assert (preparing["state"], preparing["pending_members"]) == (states("PreparingRebalance"), 0)
    first.join()
    second.joined()
    first.sync({first.id: assignment(topic.name, 0, 1), second.id: assignment(topic.name, 2)})
    second.sync({})
    first.commit((topic, 0, 7), (topic, 1, 8), (topic, 2, 9))
    second.commit((topic, 2, 10))

    stable = of_group(metrics(full), group)
    assert 0 <= stable.pop("rebalance_duration_seconds_sum") < 60
    assert stable.pop("coordinator_moves") >= 0
    assert stable == {
        "state": states("Stable"),
        "members": 2,
        "pending_members": 0,
        "generation": 2,
        "assigned_partitions": 3,
        "offsets": 3,
        "rebalances_started": {"member joined": 2},
        "rebalances_completed": 2,
        "rebalance_duration_seconds_count": 2,
        "joins": 3,
        "syncs": 3,
        "leaves": 0,
        "offset_commits": 4,
        "offset_expirations": 0,
        "offset_deletions": 0,
        "total_lag_messages": 0,
        "max_lag_seconds": 0,
        "partitions_behind": 0,
        "partitions_without_commit": 0,
    }

    second.leave()
    while first.heartbeat() is not ErrorCode.rebalance_in_progress:
        pass
    first.leave()
    deleted = {"name": topic.name, "partitions": [{"partition_index": 1}]}
    first.exchange(OFFSET_DELETE, topics=[deleted])
    empty = of_group(metrics(full), group)
    assert (empty["state"], empty["members"], empty["generation"]) == (states("Empty"), 0, 3)
    assert (empty["rebalances_started"], empty["rebalances_completed"]) == ({"member joined": 2, "member left": 1}, 2)
    assert (empty["leaves"], empty["offset_deletions"], empty["offsets"]) == (2, 1, 2)
    assert "rebalance_running_seconds" not in empty
    assert "assigned_partitions" not in empty

    assert delete(full.client, group) == [(group, ErrorCode.none)]
    assert of_group(metrics(full), group) == {}
    stable_member(full, group)
    assert of_group(metrics(full), group)["rebalances_started"] == {"member joined": 1}


def test_a_member_without_heartbeats_is_counted(full: Serving, fresh: Fresh) -> None:
    group = fresh("g")
    find(full.client, 4, group)
    stable_member(full, group, session_timeout_ms=2_000)
    until(full, lambda series: of_group(series, group).get("member_expiries") == {"session expired": 1})
    assert of_group(metrics(full), group)["state"] == states("Empty")


def until(full: Serving, holds: Callable[[dict[str, Series]], bool]) -> None:
    """Scrape until it holds."""
    while not holds(metrics(full)):
        full.run(asyncio.sleep(0.01))


def test_of_a_partition(full: Serving, fresh: Fresh, topic: Topic) -> None:
    group = fresh("g")
    find(full.client, 4, group)
    partition = full.gateway.partition_of(group)
    before, here = metrics(full), frozenset({("offsets_partition", str(partition))})
    member = stable_member(full, group)
    member.commit((topic, 0, 7), (topic, 1, 8))
    after = metrics(full)

    def grown(name: str, labels: frozenset[tuple[str, str]] = here) -> float:
        return after[name][labels] - before[name][labels]

    assert grown("muster_coordinator_groups", here | {("state", "Stable")}) == 1
    assert grown("muster_coordinator_offsets") == 2
    assert grown("muster_coordinator_rebalance_duration_seconds_count") == 1
    assert grown("muster_coordinator_rebalance_duration_seconds_bucket", here | {("le", "+Inf")}) == 1
    assert grown("muster_coordinator_rebalance_duration_seconds_bucket", here | {("le", "600.0")}) == 1
    assert after["muster_coordinator_load_seconds"][here] >= 0
    running = len(full.controller.offsets)
    assert after["muster_coordinator_partitions"] == {
        frozenset({("state", "active")}): running,
        frozenset({("state", "loading")}): 0,
    }


def test_a_group_that_keeps_replaced_offsets_is_no_group(full: Serving, fresh: Fresh, topic: Topic) -> None:
    kept = f"{UNDO_PREFIX}{fresh('g')}"
    find(full.client, 4, kept)
    partition = str(full.gateway.partition_of(kept))
    before, here = metrics(full), frozenset({("offsets_partition", partition)})
    Member(full.client, kept).commit((topic, 0, 7))
    after = metrics(full)
    assert after["muster_coordinator_offsets"][here] - before["muster_coordinator_offsets"][here] == 1
    states = here | {("state", "Empty")}
    assert after["muster_coordinator_groups"][states] == before["muster_coordinator_groups"][states]
    assert not [name for name, series in after.items() for labels in series if dict(labels).get("group") == kept]


def test_a_new_actor_counts_anew_and_the_move_is_reported(full: Serving, fresh: Fresh, topic: Topic) -> None:
    group = fresh("g")
    find(full.client, 4, group)
    member = stable_member(full, group, assignment(topic.name, 0, 3))
    member.commit((topic, 0, 7), (topic, 1, 8))
    before = of_group(metrics(full), group)
    partition = full.gateway.partition_of(group)
    assert full.actors is not None
    old = full.actors.offsets[partition]
    full.run(old.stop())
    full.run(full.controller.activate(partition))
    assert full.actors.offsets[partition] is not old

    until(full, lambda series: of_group(series, group).get("coordinator_moves") == before["coordinator_moves"] + 1)
    after = of_group(metrics(full), group)
    assert (before["offset_commits"], after["offset_commits"]) == (2, 0)
    assert (before["rebalances_completed"], after["rebalances_completed"]) == (1, 0)
    kept = ("state", "members", "generation", "offsets", "assigned_partitions")
    assert [after[name] for name in kept] == [before[name] for name in kept] == [states("Stable"), 1, 1, 2, 2]


HOSTILE = [
    'a"b',
    "a\\b",
    "a\\nb",
    "a\nb",
    "a\r\nb",
    'x",group="y',
    "} 1\nfake 2",
    "ünï\u2028",
    "\x00\t",
    "\\",
    '"',
    " ",
]


def test_hostile_names_read_back_in_both_formats(full: Serving, fresh: Fresh) -> None:
    names = [f"{name}{fresh('')}{name}" for name in HOSTILE]
    find(full.client, 4, *names)
    for name in names:
        stable_member(full, name)
    _, plain = full.http("/metrics")
    _, openmetrics = full.http("/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert openmetrics.endswith("# EOF\n")
    assert openmetrics.count("# EOF") == 1
    for found in (scraped(plain), scraped(openmetrics, parse_openmetrics)):
        assert {dict(labels)["group"] for labels in found["muster_group_members"]} >= set(names)


def test_a_name_that_cannot_be_encoded_does_not_cost_the_scrape() -> None:
    names = ["g\ud800", "g"]
    rows = [[name, "Stable", *[1] * (len(GroupRow._fields) - 4), {"member joined": 1}, {}] for name in names]
    snapshot = Snapshot(
        partition=7,
        epoch=3,
        load_ms=5,
        rebalance_buckets=(0,) * (len(REBALANCE_BUCKETS_MS) + 1),
        rebalances_ms=0,
        chunks=(json.dumps(rows),),
    )
    found = scraped(expose(1, [Scrape(1, (snapshot,), active=1, loading=0).write]).decode())
    assert {dict(labels)["group"] for labels in found["muster_group_members"]} == {"g\\ud800", "g"}


@pytest.mark.parametrize(
    "how",
    [lambda query: 1 // 0, lambda query: {}, lambda query: {"partition": 1}, lambda query: never()],
    ids=["fails", "says nothing", "says too little", "never answers"],
)
def test_an_actor_that_does_not_respond_is_left_out_and_counted(
    full: Serving, fresh: Fresh, monkeypatch: pytest.MonkeyPatch, how: Any
) -> None:
    group, other = fresh("g"), fresh("g")
    while full.gateway.partition_of(group) == full.gateway.partition_of(other):
        other = fresh("g")
    find(full.client, 4, group, other)
    for name in (group, other):
        stable_member(full, name)
    partition = full.gateway.partition_of(group)
    key = frozenset({("actor", f"offsets-{partition}")})
    before = metrics(full)["muster_group_metrics_scrape_errors_total"].get(key, 0)
    assert full.actors is not None
    with monkeypatch.context() as patch:
        patch.setitem(full.actors.offsets[partition].query_handlers, "metrics", how)
        during = metrics(full)
    assert of_group(during, group) == {}
    assert of_group(during, other)["members"] == 1
    assert during["muster_group_metrics_scrape_errors_total"][key] == before + 1
    assert of_group(metrics(full), group)["members"] == 1


async def never() -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


def test_of_two_gateways_one_reports_a_group(full: Serving, fresh: Fresh) -> None:
    groups: dict[int, str] = {}
    while len(groups) < 3:
        group = fresh("g")
        groups[full.gateway.partition_of(group)] = group
    find(full.client, 4, *groups.values())
    for group in groups.values():
        stable_member(full, group)
    here = tuple(Broker(id=number, host="h", port=number, node_id="n1") for number in (1, 2))
    view = replace(full.controller.view(), brokers=here)
    account = Account(Sink(), Sample)

    async def second() -> tuple[GatewayServer, int]:
        gateway = GatewayServer(
            gateway_id=2,
            node_id="n1",
            config=full.gateway.config,
            controller=full.controller,
            account=account,
            metrics=GatewayMetrics(2, account),
            view=view,
        )
        for partition in groups:
            assert await gateway.coordinator_ready(partition, 10)
        return gateway, await gateway.listen("127.0.0.1", 0)

    gateway, port = full.run(second())
    other = Serving(gateway, full.controller, full.run, port)
    try:
        full.follow(view)
        texts = [full.http("/metrics")[1], other.http("/metrics")[1]]
        reported = [{dict(labels)["group"] for labels in scraped(text)["muster_group_members"]} for text in texts]
        assert not reported[0] & reported[1]
        assert reported[0] | reported[1] >= set(groups.values())
        for number, names in enumerate(reported, 1):
            advertised = {
                group for partition, group in groups.items() if view.coordinator_of(partition) == here[number - 1]
            }
            assert advertised == names & set(groups.values())
    finally:
        other.client.close()
        other.stop_http()
        full.run(gateway.stop())
        full.follow(full.controller.view())


def test_each_partition_is_reported_by_its_coordinator() -> None:
    """On whichever nodes the actors are, all gateways together report every partition once."""
    brokers = tuple(Broker(id=number, host="h", port=number, node_id=f"n{number % 3}") for number in range(1, 6))
    offsets: dict[int, Endpoint | None] = {
        partition: None
        if partition % 7 == 0
        else Endpoint(node_id=f"n{partition % 4}", host="h", port=1, path="p", secret=b"s")
        for partition in range(50)
    }
    view = ClusterView(
        cluster_id="c",
        controller_epoch=1,
        version=1,
        brokers=brokers,
        topics={OFFSETS_TOPIC: Topic(name=OFFSETS_TOPIC, topic_id=uuid4(), partitions=50)},
        logs={0: None},
        offsets=offsets,
    )
    reported = [exposed_here(view, broker.id) for broker in brokers]
    assert sorted(partition for some in reported for partition in some) == list(range(50))
    for broker, partitions in zip(brokers, reported, strict=True):
        assert all(view.coordinator_of(partition) == broker for partition in partitions)
    assert exposed_here(replace(view, brokers=()), 1) == []
