"""``muster groups`` against a running Muster with real clients: output, changes, refusals and reversals."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from muster.gateway.cli import main
from muster.gateway.cli.client.cluster import group_names
from muster.gateway.cli.groups import admin as group_admin
from muster.gateway.cli.groups.admin import EVICTED
from tests.cluster.consumer_groups.members import ConfluentMember
from tests.gateway.group_client import Member, find
from tests.gateway.serving import Client
from tests.muster_process import Muster, eventually

Fresh = Callable[[str], str]
Offsets = dict[int, tuple[int, str]]
"""Partition -> committed offset and metadata."""

FIRST_MS = 1_700_000_000_000
"""Timestamp of the first record, 2023-11-14T22:13:20Z; each further record is an hour later."""
HOUR_MS = 3_600_000
RECORDS = 10
WAIT_S = 60


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run(muster: Muster, *arguments: str | Path, bootstrap: bool = False) -> Done:
    """Run the command in this process: a new process would take longer than the command itself."""
    where = ["--bootstrap-server", muster.bootstrap] if bootstrap else ["--storage", str(muster.storage)]
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main._run(["groups", *map(str, arguments), *where])
    assert "unexpected" not in err.getvalue()
    return Done(code, out.getvalue(), err.getvalue())


def output(muster: Muster, *arguments: str | Path, bootstrap: bool = False) -> Any:
    done = run(muster, *arguments, "--json", bootstrap=bootstrap)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout, parse_constant=lambda name: pytest.fail(name))


def refusal(muster: Muster, *arguments: str | Path, code: int = 1) -> str:
    done = run(muster, *arguments)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("muster: ")
    return line


def topic_of(muster: Muster, name: str, partitions: int = 2, records: int = RECORDS) -> str:
    """Create a topic whose partitions have that many records each, one hour apart."""
    admin = AdminClient({"bootstrap.servers": muster.bootstrap})
    kept = {"retention.ms": "-1"}  # the records are years old, and retention runs every five minutes
    admin.create_topics([NewTopic(name, num_partitions=partitions, config=kept)])[name].result(WAIT_S)
    append(muster, name, partitions, records)
    return name


def append(muster: Muster, topic: str, partitions: int, records: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": muster.bootstrap, "linger.ms": 0})
    failed = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failed.append(f"{message.partition()}: {error}")

    for partition in range(partitions):
        for number in range(records):
            when_ms = FIRST_MS + HOUR_MS * number
            producer.produce(topic, b"x", partition=partition, timestamp=when_ms, on_delivery=delivered)
    assert (producer.flush(WAIT_S), failed) == (0, [])


def commit(muster: Muster, group: str, topic: str, offsets: Offsets) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": muster.bootstrap, "group.id": group})
    wanted = [TopicPartition(topic, key, offset, metadata) for key, (offset, metadata) in offsets.items()]
    consumer.commit(offsets=wanted, asynchronous=False)
    consumer.close()


def committed(muster: Muster, group: str) -> Offsets:
    admin = AdminClient({"bootstrap.servers": muster.bootstrap})
    futures = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = futures[group].result(WAIT_S).topic_partitions
    return {each.partition: (each.offset, each.metadata or "") for each in found if each.offset >= 0}


def offsets_in(plan: dict[str, Any]) -> dict[int, int]:
    return {row["partition"]: row["offset"] for row in plan["offsets"]}


def test_describe_shows_members_and_lag_in_messages_and_seconds(muster: Muster, fresh: Fresh) -> None:
    group, before_s = fresh("g"), datetime.now(UTC).timestamp()
    topic = topic_of(muster, fresh("t"))
    after_s = datetime.now(UTC).timestamp()
    member = ConfluentMember(muster.bootstrap, topic, group, **{"client.id": "mine", "group.instance.id": "one"})
    member.start()
    try:
        everything = {0: RECORDS, 1: RECORDS}
        eventually(lambda: (dict(member.committed), member.errors), lambda found: found[0] == everything, "commits")
    finally:
        member.leave()  # a static member stays in the group
    commit_of = {"0": 4, "1": RECORDS}
    shown = output(muster, "describe", group)
    assert [row["lag_s"] for row in shown["offsets"]] == [0, 0]
    [described] = shown["members"]
    assert (described["client_id"], described["host"], described["group_instance_id"]) == ("mine", "127.0.0.1", "one")
    assert described["assignment"] == [{"topic": topic, "partition": partition} for partition in (0, 1)]
    assert {row["member_id"] for row in shown["offsets"]} == {described["member_id"]}

    assert "one" in run(muster, "evict", group, "one").stderr
    commit(muster, group, topic, {int(key): (offset, "") for key, offset in commit_of.items()})
    requested_s = datetime.now(UTC).timestamp()
    shown = output(muster, "describe", group)
    answered_s = datetime.now(UTC).timestamp()
    behind, at_end = shown["offsets"]
    assert (behind["committed_offset"], behind["end_offset"], behind["lag"]) == (4, RECORDS, RECORDS - 4)
    assert requested_s - after_s - 0.001 <= behind["lag_s"] <= answered_s - before_s + 0.001
    assert (at_end["lag"], at_end["lag_s"], shown["note"], shown["members"]) == (0, 0, None, [])

    text = run(muster, "describe", group).stdout
    assert "LAG (S)" in text
    plain = run(muster, "describe", group, bootstrap=True).stdout
    assert "LAG (S)" not in plain
    assert "leave --bootstrap-server out" in plain
    over_kafka = output(muster, "describe", group, bootstrap=True)
    assert [{**row, "lag_s": None} for row in shown["offsets"]] == [
        {**row, "lag_s": None} for row in over_kafka["offsets"]
    ]
    assert over_kafka["offsets"][0]["lag_s"] is None


def test_every_way_to_say_where_to(muster: Muster, fresh: Fresh, tmp_path: Path) -> None:
    topic, group = topic_of(muster, fresh("t")), fresh("g")
    was = {0: (4, "first"), 1: (9, "second")}
    commit(muster, group, topic, was)
    listed, csv = tmp_path / "offsets.json", tmp_path / "kafka.csv"
    csv.write_text(f'"{topic}",0,2\n"{topic}",1,99\n')
    age = datetime.now(UTC) - datetime.fromtimestamp((FIRST_MS + 6.5 * HOUR_MS) / 1000, UTC)
    cases: list[tuple[list[str | Path], dict[int, int], tuple[int, int]]] = [
        (["--to-earliest"], {0: 0, 1: 0}, (13, 0)),
        (["--to-latest"], {0: 10, 1: 10}, (0, 7)),
        (["--to-current"], {0: 4, 1: 9}, (0, 0)),
        (["--to-offset", "7"], {0: 7, 1: 7}, (2, 3)),
        (["--to-offset", "70"], {0: 10, 1: 10}, (0, 7)),
        (["--shift-by", "-5"], {0: 0, 1: 4}, (9, 0)),
        (["--to-datetime", "2023-11-15T01:13:20"], {0: 3, 1: 3}, (7, 0)),
        (["--to-datetime", "2023-11-15T02:13:20.001+01:00"], {0: 4, 1: 4}, (5, 0)),
        (["--to-datetime", "2030-01-01"], {0: 10, 1: 10}, (0, 7)),
        (["--by-duration", f"PT{int(age.total_seconds())}S"], {0: 7, 1: 7}, (2, 3)),
        (["--by-duration", f"{int(age.total_seconds())}s"], {0: 7, 1: 7}, (2, 3)),
        (["--from-file", csv], {0: 2, 1: 10}, (2, 1)),
    ]
    for where, expected, counts in cases:
        which = [] if where[0] == "--from-file" else ["--topic", topic]
        plan = output(muster, "reset-offsets", group, *where, *which)
        assert offsets_in(plan) == expected, where
        assert (plan["read_again"], plan["skipped"], plan["executed"]) == (*counts, False), where
    done = run(muster, "reset-offsets", group, "--to-datetime", "2023-11-15T01:13:20", "--topic", f"{topic}:1")
    assert "2023-11-15T01:13:20.000Z or later (no zone was given: UTC)" in done.stdout
    assert "6 messages would be read again, 0 skipped; 1 offset would be changed" in done.stdout
    assert "dry run: nothing was changed" in done.stderr
    assert committed(muster, group) == was

    exported = tmp_path / "exported.csv"
    plan = output(muster, "reset-offsets", group, "--to-offset", "3", "--all-topics", "--export", exported)
    assert exported.read_text() == f"{topic},0,3\n{topic},1,3\n"
    listed.write_text(json.dumps(plan))
    for file in (exported, listed):
        assert offsets_in(output(muster, "reset-offsets", group, "--from-file", file)) == {0: 3, 1: 3}


def test_a_reset_and_the_way_back(muster: Muster, fresh: Fresh) -> None:
    topic, group = topic_of(muster, fresh("t"), 3), fresh("g")
    was = {0: (4, "mine"), 1: (9, "x" * 4090)}
    commit(muster, group, topic, was)
    assert f"group {group} has no reset to undo" in refusal(muster, "reset-offsets", group, "--undo")
    done = run(muster, "reset-offsets", group, "--to-offset", "6", "--topic", topic, "--execute")
    assert done.returncode == 0, done.stderr
    assert "3 messages will be read again, 2 skipped, unknown in 1 partition: where nothing is committed" in done.stdout
    assert "the metadata of some offsets is too long" in done.stdout
    assert committed(muster, group) == dict.fromkeys(range(3), (6, ""))
    commit(muster, group, topic, {0: (8, "a consumer went on")})

    assert run(muster, "delete", fresh("unknown")).returncode == 1
    assert group in [row["group"] for row in output(muster, "list", "--state", "empty")]
    assert not [row for row in output(muster, "list") if row["group"].startswith("__")]
    assert group not in [row["group"] for row in output(muster, "list", "--state", "Stable")]

    plan = output(muster, "reset-offsets", group, "--undo")
    assert offsets_in(plan) == {0: 4, 1: 9, 2: None}
    assert (plan["read_again"], plan["skipped"]) == (4, 3)
    assert output(muster, "reset-offsets", group, "--undo", "--execute", bootstrap=True)["executed"]
    assert committed(muster, group) == {0: (4, "mine"), 1: (9, "")}
    assert "to undo" in refusal(muster, "reset-offsets", group, "--undo", "--execute")

    for offset in ("1", "2"):  # the last of two resets counts, also for what only the first one changed
        which = topic if offset == "1" else f"{topic}:0"
        output(muster, "reset-offsets", group, "--to-offset", offset, "--topic", which, "--execute")
    output(muster, "reset-offsets", group, "--undo", "--execute")
    assert {key: offset for key, (offset, _) in committed(muster, group).items()} == {0: 1, 1: 1, 2: 1}


def test_a_group_that_does_not_exist_yet_and_one_that_goes_with_its_undo(muster: Muster, fresh: Fresh) -> None:
    topic, group = topic_of(muster, fresh("t")), fresh("g")
    assert f"{topic}-0 has no committed offset" in refusal(
        muster, "reset-offsets", group, "--shift-by", "1", "--topic", topic
    )
    assert "has no committed offsets" in refusal(muster, "reset-offsets", group, "--to-earliest", "--all-topics")
    to_latest = ("reset-offsets", group, "--to-latest", "--topic", f"{topic}:1")
    said = run(muster, *to_latest).stdout
    assert f"there is no group {group}: --execute would create it" in said
    assert "it is unknown how many messages would be read again" in said
    assert output(muster, *to_latest, "--execute")["notes"] == [f"there was no group {group}: it was created"]
    assert committed(muster, group) == {1: (RECORDS, "")}
    assert output(muster, *to_latest)["notes"] == []
    assert f"; leave it out: --topic {topic}:1" in refusal(
        muster, "reset-offsets", group, "--shift-by", "1", "--topic", topic
    )
    other = fresh("g")
    done = run(muster, "delete", group, other, group, "--json")
    assert json.loads(done.stdout) == [
        {"group": group, "deleted": True, "error": None},
        {"group": other, "deleted": False, "error": f"there is no group {other}"},
    ]
    assert (done.returncode, done.stderr) == (1, f"deleted {group}\nmuster: there is no group {other}\n")
    assert "to undo" in refusal(muster, "reset-offsets", group, "--undo")
    assert f"there is no group {group}" in refusal(muster, "describe", group)


def test_the_group_that_was_meant(muster: Muster, fresh: Fresh) -> None:
    topic, group = topic_of(muster, fresh("the-topic-of-readers")), fresh("a-group-of-readers")
    commit(muster, group, topic, {0: (4, "")})
    meant, wrong = f"; did you mean {group}?", f"{group}s"
    for command in ("describe", "history", "lag", "delete"):
        assert f"there is no group {wrong}{meant}" in refusal(muster, command, wrong), command
    assert f"there is no group {wrong}{meant}" in refusal(muster, "evict", wrong, "someone")
    to_latest = ("reset-offsets", wrong, "--to-latest", "--topic")
    assert f"--execute would create it{meant}" in run(muster, *to_latest, topic).stdout
    assert f"there is no topic {topic}s; did you mean {topic}?" in refusal(muster, *to_latest, f"{topic}s")


def test_groups_are_listed_once_for_all_that_are_missing(muster: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []

    def names(bootstrap: str) -> list[str]:
        listed.append(bootstrap)
        return group_names(bootstrap)

    monkeypatch.setattr(group_admin, "group_names", names)
    missing = ("no-such", "nothing-like-it", "nor-this")
    said = run(muster, "delete", *missing, bootstrap=True).stderr
    assert all(f"there is no group {name}" in said for name in missing)
    assert listed == [muster.bootstrap]


def test_members_are_in_the_way_named_and_evicted(muster: Muster, fresh: Fresh) -> None:
    topic, group = topic_of(muster, fresh("t")), fresh("g")
    member = ConfluentMember(muster.bootstrap, topic, group, **{"client.id": "printer"})
    member.start()
    try:
        eventually(lambda: dict(member.committed), lambda found: found == {0: 10, 1: 10}, "all is committed")
        (member_id,) = member.identity()
        reset = ["reset-offsets", group, "--to-earliest", "--all-topics"]
        for arguments in ([*reset, "--execute"], ["delete", group]):
            line = refusal(muster, *arguments)
            assert f"{member_id} (client printer on 127.0.0.1)" in line
        shown = run(muster, *reset)
        assert shown.returncode == 0
        assert "--execute would be refused" in shown.stderr
        assert "has no member unknown; its members are" in refusal(muster, "evict", group, "unknown")

        seen = member.rebalances
        done = run(muster, "evict", group, "printer")
        assert done.returncode == 0
        assert f"evicted {member_id} (client printer on 127.0.0.1) from group {group}" in done.stderr
        assert "rejoins by itself" in done.stderr
        append(muster, topic, 2, 1)
        eventually(lambda: dict(member.committed), lambda found: found == {0: 11, 1: 11}, "it rejoined and continues")
        assert member.identity() != (member_id,)
        assert member.rebalances > seen
        assert member.identity()[0] in {row["member_id"] for row in output(muster, "describe", group)["members"]}
    finally:
        member.leave()
    output(muster, *reset, "--execute")
    assert committed(muster, group) == {0: (0, ""), 1: (0, "")}


def test_whom_a_rebalance_waits_for(muster: Muster, fresh: Fresh) -> None:
    group = fresh("g")
    port = int(muster.bootstrap.split(",")[0].rpartition(":")[2])
    with Client(port, "late") as late, Client(port, "new") as new:
        find(late, 4, group)
        member = Member(late, group, instance="slow")
        member.join()
        member.sync({})
        Member(new, group, instance="other").request_join()  # parked until the first one rejoins
        waits = eventually(
            lambda: [wait for wait in output(muster, "waiting")["groups"] if wait["group"] == group],
            lambda found: bool(found),
            "the rebalance waits",
        )
        assert [who["member_id"] for who in waits[0]["members"]] == [member.id]
        row = next(line for line in run(muster, "waiting").stdout.splitlines() if line.startswith(group))
        assert {"PreparingRebalance", member.id, "late", "slow"} <= set(row.split())
        assert run(muster, "evict", group, "slow").returncode == 0
        row = next(line for line in run(muster, "waiting").stdout.splitlines() if line.startswith(group))
        assert {"CompletingRebalance", "new", "other"} <= set(row.split()), "now its SyncGroup is awaited"
        [gone] = output(muster, "history", group)["entries"][0]["gone"]
        assert (gone["member_id"], gone["cause"], gone["reason"]) == (member.id, None, EVICTED)


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["--to-earliest"], 2, "--topic or --all-topics"),
        (["--all-topics"], 2, "Specify a target"),
        (["--to-earliest", "--to-latest", "--all-topics"], 2, "--to-earliest, --to-latest exclude each other"),
        (["--to-earliest", "--topic", "t", "--all-topics"], 2, "--topic, --all-topics exclude each other"),
        (["--undo", "--topic", "t"], 2, "--undo already names the partitions"),
        (["--to-offset", "-1", "--all-topics"], 2, "--to-offset"),
        (["--by-duration", "soon", "--all-topics"], 2, "is not a duration"),
        (["--to-datetime", "soon", "--all-topics"], 2, "2026-01-31T09:30:00+01:00. See: muster groups"),
        (["--to-latest", "--topic", "t:x"], 2, "is not TOPIC"),
        (["--to-latest", "--all-topics", "--execute", "--dry-run"], 2, "exclude each other"),
        (["--from-file", "/nowhere"], 1, "/nowhere cannot be read"),
        (["--from-file", "/"], 1, "/ cannot be read"),
        (["--to-latest", "--topic", "no-such-topic"], 1, "there is no topic no-such-topic"),
        (["--to-latest", "--topic", "__consumer_offsets:99999"], 1, "there is no partition __consumer_offsets-99999"),
    ],
)
def test_what_makes_no_sense(muster: Muster, arguments: list[str], code: int, complaint: str) -> None:
    assert complaint in refusal(muster, "reset-offsets", "nobody's", *arguments, code=code)
