"""``muster groups lag`` and ``list`` beside a real consumer that stops half way."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from tests.cluster.consumer_groups.groups import PARTITIONS, create
from tests.cluster.consumer_groups.members import Producer
from tests.muster_process import Muster, eventually


@pytest.fixture
def behind(muster: Muster, fresh: Callable[[str], str]) -> str:
    """Return a group that has committed 10 of the records of each partition, and has no members."""
    topic, group = fresh("t"), fresh("slow")
    create(muster, topic)
    producer = Producer(muster.bootstrap, topic)
    producer.send(100 * PARTITIONS)
    producer.flush()
    consumer = confluent_kafka.Consumer({"bootstrap.servers": muster.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, each, 10) for each in range(PARTITIONS)], asynchronous=False)
    consumer.close()
    return group


def test_a_slow_group_is_listed_with_its_lag(muster: Muster, behind: str) -> None:
    left = 90 * PARTITIONS
    eventually(
        lambda: {row["group"]: row for row in json.loads(muster.cli("groups", "list", "--json"))}.get(behind, {}),
        lambda row: (row.get("lag"), row.get("behind"), row.get("members")) == (left, PARTITIONS, 0),
        "its lag",
    )
    [row] = [line.split() for line in muster.cli("groups", "list").splitlines() if line.startswith(behind)]
    assert row[1:6] == ["Empty", "classic", "-", "0", str(left)]
    assert float(row[6]) > 0
    assert row[7] == "0"
    found = json.loads(muster.cli("groups", "lag", behind, "--json"))
    assert (found["lag"], found["behind"]) == (left, PARTITIONS)
    assert found["lag_s"] == max(each["lag_s"] for each in found["partitions"])
    shown = muster.cli("groups", "lag", behind, check=False)
    assert f"group {behind} is Empty, {left} messages in {PARTITIONS} partitions behind" in shown
    assert behind not in {
        row["group"] for row in json.loads(muster.cli("groups", "list", "--state", "Stable", "--json"))
    }
    assert behind in muster.cli("groups", "list", "--bootstrap-server", muster.bootstrap)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_that_never_commits_is_listed_first(
    muster: Muster, behind: str, fresh: Callable[[str], str], protocol: str
) -> None:
    topic, group = fresh("t"), fresh("newcomers")
    create(muster, topic)
    producer = Producer(muster.bootstrap, topic)
    producer.send(10 * PARTITIONS)
    producer.flush()
    config = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": muster.bootstrap, "enable.auto.commit": False, **config})
    consumer.subscribe([topic])
    first = eventually(lambda: consumer.poll(0.5), lambda message: message is not None, "its first message")
    assert first is not None
    assert first.error() is None

    def listed() -> list[str]:
        return muster.cli("groups", "list").splitlines()

    place = lambda lines, name: next(at for at, line in enumerate(lines) if line.startswith(name))  # noqa: E731
    of_all = eventually(listed, lambda lines: any(line.startswith(group) for line in lines), "the group")
    assert of_all[place(of_all, group)].split()[-3:] == ["-", "-", str(PARTITIONS)]
    assert place(of_all, group) < place(of_all, behind)
    by_lag = muster.cli("groups", "lag", "--sort", "lag", "--limit", "10000").splitlines()
    assert place(by_lag, behind) < place(by_lag, group)
    messages = 10 * PARTITIONS
    shown = muster.run("groups", "lag", group).stderr
    assert f"{PARTITIONS} partitions without a commit ({messages} messages in their logs) are in no sum" in shown
    consumer.commit(offsets=[TopicPartition(topic, each, 10) for each in range(PARTITIONS)], asynchronous=False)
    found = json.loads(muster.cli("groups", "lag", group, "--json"))
    assert (found["without_commit"], found["unread"]) == (0, found["lag"])
    consumer.close()


def test_an_unknown_group_has_no_lag(muster: Muster, fresh: Callable[[str], str]) -> None:
    group = fresh("nobody")
    done = muster.run("groups", "lag", group)
    assert done.returncode == 1
    assert done.stderr == f"muster: there is no group {group}; see muster groups list\n"


def test_it_is_watched_until_ctrl_c(muster: Muster, behind: str) -> None:
    command = [sys.executable, "-m", "muster.gateway.cli.main", "groups", "lag", behind, "--json", "--watch", "0.2"]
    with subprocess.Popen(
        [*command, "--storage", str(muster.storage)],
        stdout=subprocess.PIPE,
        text=True,
        env=muster.environment,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a job in the background ignores it
    ) as watching:
        assert watching.stdout is not None
        ages_s = [json.loads(watching.stdout.readline())["lag_s"] for _ in range(3)]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 0
    assert ages_s == sorted(ages_s)
    assert ages_s[0] < ages_s[-1]
