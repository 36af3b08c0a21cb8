"""``muster events`` and ``rebalance.events.topic`` while a coordinator and gateways are killed."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.muster_process import STOP_S, Muster, eventually

TOPIC, READ, GROUP = "rebalance-events", "planes", "billing"
PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "rebalance.events.topic": TOPIC,
}
Key = tuple[int, int]
"""Epoch and number."""


@contextmanager
def events(muster: Muster) -> Iterator[queue.Queue[dict[str, Any]]]:
    """Yield the events of ``muster events --json``."""
    command = [sys.executable, "-m", "muster.gateway.cli.main", "events", "--json", "--storage", str(muster.storage)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found: queue.Queue[dict[str, Any]] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            found.put(json.loads(line))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield found
    finally:
        process.kill()
        process.wait()
        reader.join()


def rebalance(muster: Muster) -> None:
    """Have a member join and leave."""
    consumer = Consumer({"bootstrap.servers": muster.bootstrap, "group.id": GROUP, "session.timeout.ms": 6000})
    assigned = threading.Event()
    consumer.subscribe([READ], on_assign=lambda *_: assigned.set())
    eventually(lambda: (consumer.poll(0.1), assigned.is_set())[1], bool, "partitions are assigned")
    consumer.close()


def history(muster: Muster) -> dict[Key, dict[str, Any]]:
    entries = json.loads(muster.cli("groups", "history", GROUP, "--json", "--limit", "1000"))["entries"]
    return {key(entry): entry for entry in entries if entry["ending"] != "running"}


def key(entry: dict[str, Any]) -> Key:
    return entry["epoch"], entry["number"]


def test_rebalances_are_followed_and_written_whatever_is_killed(tmp_path: Path) -> None:
    with Muster(tmp_path / "storage", properties=PROPERTIES) as muster:
        muster.cli("topics", "create", READ)
        rebalance(muster)
        with events(muster) as following:
            heard: dict[Key, dict[str, Any]] = {}
            others: list[tuple[str, Any]] = []

            def hear(wanted: Callable[[], bool]) -> None:
                while not wanted():
                    event = following.get(timeout=STOP_S)
                    if event["event"] == "rebalance":
                        heard[key(event["data"])] = event["data"]
                    else:
                        others.append((event["event"], event["data"].get("name")))

            while following.empty():
                rebalance(muster)
            hear(lambda: bool(heard))
            muster.cli("topics", "create", TOPIC, "--partitions", "2")
            old = muster.kill_actor("gateway-1")
            muster.until_back("gateway-1", old)
            rebalance(muster)
            hear(lambda: heard.keys() >= {max(history(muster))})
            old = muster.kill_actor("offsets-0")
            muster.until_back("offsets-0", old)
            rebalance(muster)
            hear(lambda: heard.keys() >= {max(history(muster))})
            assert ("actor", "offsets-0") in others
        ended = history(muster)
        assert all(ended[each] == entry for each, entry in heard.items())
        assert written(muster, set(ended)) == ended


def written(muster: Muster, wanted: set[Key]) -> dict[Key, dict[str, Any]]:
    """Read the topic until it has these entries, whose headers and keys must be right."""
    consumer = Consumer({"bootstrap.servers": muster.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, number, OFFSET_BEGINNING) for number in range(2)])
    found: dict[Key, dict[str, Any]] = {}
    while not wanted <= found.keys():
        message: Any = consumer.poll(STOP_S)
        assert message is not None, wanted - found.keys()
        assert message.error() is None, message.error()
        entry = json.loads(message.value())
        headers = dict(message.headers())
        assert (int(headers["epoch"]), int(headers["number"]), message.key()) == (*key(entry), GROUP.encode())
        assert message.timestamp()[1] == entry["ended_ms"]
        found[key(entry)] = entry
    consumer.close()
    return found
