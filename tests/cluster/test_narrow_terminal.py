"""Tables of a running Muster on a terminal of 80 columns, with names as they are in use."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stdout
from typing import Any

import confluent_kafka
import pytest

from muster.gateway.cli import main
from muster.placement.hashing import partition_for
from tests.cluster.consumer_groups.groups import PARTITIONS, WAIT_S, create
from tests.cluster.consumer_groups.members import ConfluentMember
from tests.muster_process import Muster, eventually
from tests.narrow_terminal import Screen, terminal

WIDTH, RECORDS = 80, 100
OFFSETS_PARTITIONS = 50
TOPIC = "com.acme.logistics.shipment-status-changed.events"
GROUP = "payments-settlement-reconciliation-service-production"
STATIC = "billing"
CONSUMER = "shipments-of-the-next-generation-eu-central-1"
"""A group of the consumer protocol (KIP-848)."""
POD, HOST = "payments-settlement-7d9f8b6c5d-x2k0q", "billing-0.billing.svc.cluster.local"
COMMANDS = (
    "groups list",
    "groups lag",
    f"groups lag {GROUP}",
    *(f"groups describe {group}" for group in (GROUP, STATIC, CONSUMER)),
    "groups waiting",
    f"groups reset-offsets {GROUP} --all-topics --to-earliest",
    "topics list",
    f"topics describe {TOPIC} --all",
    "quotas list",
    "acls list",
    "fault list",
    f"log verify {TOPIC}",
    f"log replay __consumer_offsets-{partition_for(GROUP, OFFSETS_PARTITIONS)}",
    f"log replay __consumer_offsets-{partition_for(CONSUMER, OFFSETS_PARTITIONS)}",
    "tables list",
)
"""All but those that connect to Ray, whose rows tests/cli/test_narrow_tables.py has."""


@pytest.fixture(scope="module")
def filled(muster: Muster) -> Iterator[Muster]:
    """With groups whose members have all joined, a quota and a fault."""
    create(muster, TOPIC)
    producer = confluent_kafka.Producer({"bootstrap.servers": muster.bootstrap})
    for number in range(RECORDS):
        producer.produce(TOPIC, b"x", partition=number % PARTITIONS)
    assert producer.flush(WAIT_S) == 0
    members = [
        *(ConfluentMember(muster.bootstrap, TOPIC, GROUP, **{"client.id": POD}) for _ in range(2)),
        ConfluentMember(muster.bootstrap, TOPIC, STATIC, **{"group.instance.id": HOST}),
        ConfluentMember(muster.bootstrap, TOPIC, CONSUMER, **{"group.protocol": "consumer"}),
    ]
    output(muster, "quotas", "set", "--group", GROUP, "--group-rate", "1GB/s")
    fault = ("--api", "Heartbeat", "--group", f"not-{GROUP}", "--error", "NOT_COORDINATOR", "--once")
    fault_id = output(muster, "fault", "inject", "error", *fault).strip()
    with ExitStack() as leaving:
        for member in members:
            member.start()
            leaving.callback(member.leave)
        expected = {GROUP: ("Stable", 2, 0), STATIC: ("Stable", 1, 0), CONSUMER: ("Stable", 1, 0)}
        eventually(
            lambda: {each["group"]: (each["state"], each["members"], each["lag"]) for each in groups(muster)},
            lambda found: expected.items() <= found.items(),
            "all members are there and have committed",
        )
        yield muster
    output(muster, "fault", "clear", fault_id)
    output(muster, "quotas", "remove", "--group", GROUP)


def output(muster: Muster, *arguments: str) -> str:
    """Return the output of the command, run in this process, to a pipe."""
    with redirect_stdout(io.StringIO()) as out:
        assert main._run([*arguments, "--storage", str(muster.storage)]) == 0
    return out.getvalue()


def groups(muster: Muster) -> list[dict[str, Any]]:
    return list(json.loads(output(muster, "groups", "list", "--json")))


def shown(muster: Muster, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Screen:
    """Run the command in this process."""
    with terminal(WIDTH, monkeypatch) as screen:
        main._run([*arguments, "--storage", str(muster.storage)])
    return screen


@pytest.mark.parametrize("command", COMMANDS)
def test_tables_fit(filled: Muster, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    shown(filled, monkeypatch, *command.split()).check(WIDTH)


def test_a_topic_shows_the_configs_that_are_set(filled: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    every = {each["name"] for each in json.loads(output(filled, "topics", "describe", TOPIC, "--json"))["configs"]}

    def configs(*more: str) -> set[str]:
        lines = shown(filled, monkeypatch, "topics", "describe", TOPIC, *more).lines
        return {line.split()[0] for line in lines if line} & every

    assert configs() == set()
    assert configs("--all", "--wide") == every
    output(filled, "topics", "alter", TOPIC, "--config", "retention.ms=86400000")
    assert configs() == {"retention.ms"}
    output(filled, "topics", "alter", TOPIC, "--delete-config", "retention.ms")


@pytest.mark.parametrize(
    ("which", "said"),
    [
        (["--topic", f"{TOPIC}:1"], f"{TOPIC}-1: 999999 is beyond the latest offset"),
        (["--all-topics"], "in all rows: NOTE 999999 is beyond the latest offset"),
    ],
)
def test_notes_that_do_not_fit_are_below_the_plan(
    filled: Muster, monkeypatch: pytest.MonkeyPatch, which: list[str], said: str
) -> None:
    lines = shown(filled, monkeypatch, "groups", "reset-offsets", GROUP, *which, "--to-offset", "999999").lines
    assert said in " ".join(map(str.strip, lines))


def test_a_member_is_named_by_what_is_shown_and_wide_shows_all_of_it(
    filled: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = shown(filled, monkeypatch, "groups", "describe", GROUP).lines
    first, second = (line.split()[0] for line in lines if line.startswith(POD[:8]))
    ids = [each["member_id"] for each in json.loads(output(filled, "groups", "describe", GROUP, "--json"))["members"]]
    assert len({first, second}) == 2
    assert [each[-7:] == whole.removeprefix(f"{POD}-")[:7] for each, whole in zip((first, second), ids, strict=True)]
    assert not any(each in line for each in ids for line in lines)
    wide = shown(filled, monkeypatch, "groups", "describe", GROUP, "--wide").lines
    assert all(any(each in line for line in wide) for each in ids)
    assert "--wide" not in "".join(wide)
    said = shown(filled, monkeypatch, "groups", "evict", GROUP, first).lines
    assert ids[0] in "".join(map(str.strip, said))
