"""The demo's checks: they must pass for a good run, and fail for each possible error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from examples.demo.checks import (
    Commit,
    GroupSeen,
    Killed,
    MemberSeen,
    Membership,
    Seen,
    check_all,
    consumed_offsets,
    group_lines,
)
from examples.demo.consumption import Consumption, GatewayTotal, GroupTotal, Unattributed
from examples.demo.received import Received

ROWS = 40
ENDS = {0: 25, 1: 15}


def member(*records: tuple[int, int, int], exit_code: int = 0) -> MemberSeen:
    """Make a member. ``records``: (partition, first offset, last offset). Row numbers count over both partitions."""
    received = Received(ROWS)
    for partition, first, last in records:
        for offset in range(first, last + 1):
            received.add(partition, offset, offset + 25 * partition)
    return MemberSeen(
        exit_code=exit_code,
        total=received.total,
        intervals={int(p): [(a, b) for a, b in i] for p, i in received.to_json()["intervals"].items()},
        rows=bytes(received._rows),
    )


STABLE = Membership(generation=3, members=("a", "b"))
SILENT = Membership(generation=None, members=())
BILLING = GroupSeen(
    client="confluent-kafka",
    expected_members=2,
    members=[member((0, 0, 24)), member((0, 20, 24), (1, 0, 14))],
    before=STABLE,
    after=STABLE,
)
ARCHIVE = replace(
    BILLING,
    client="aiokafka",
    expected_members=1,
    members=[member((0, 0, 24), (1, 0, 14))],
    before=Membership(generation=1, members=("c",)),
    after=Membership(generation=1, members=("c",)),
)
COMMITS = [
    Commit(at_s=at_s, group=group, partition=partition, offset=min(offset, end))
    for at_s, offset in ((8.0, 3), (11.0, 5), (12.0, 9), (30.0, 99))
    for group in ("billing", "archive")
    for partition, end in ENDS.items()
]
GOOD = Seen(
    rows=ROWS,
    delivered=ROWS,
    undelivered=0,
    ends=ENDS,
    groups={"billing": BILLING, "archive": ARCHIVE},
    commits=COMMITS,
    actor=Killed(name="offsets-9", at_s=10.0, pid_before=100, pid_after=101),
    actor_group="billing",
    gateway=Killed(name="gateway-1", at_s=20.0, pid_before=200, pid_after=201),
    first_life={(1, "billing"): (10, 1000)},
    counted={(1, "billing"): (5, 500), (2, "billing"): (30, 3000), (2, "archive"): (40, 4000)},
    consumption=Consumption(
        groups=(
            GroupTotal(group="archive", messages=40, bytes=4000, distinct=40, resent=0),
            GroupTotal(group="billing", messages=47, bytes=4700, distinct=40, resent=7),
        ),
        gateways=(
            GatewayTotal(gateway=1, group="billing", messages=17, bytes=1700),
            GatewayTotal(gateway=2, group="billing", messages=30, bytes=3000),
            GatewayTotal(gateway=2, group="archive", messages=40, bytes=4000),
        ),
    ),
)


def failed(seen: Seen) -> list[str]:
    return [f"{check.name}: {check.detail}" for check in check_all(seen) if not check.held]


def with_billing(**changes: object) -> Seen:
    return replace(GOOD, groups={**GOOD.groups, "billing": replace(BILLING, **changes)})  # type: ignore[arg-type]


def test_a_good_run_holds() -> None:
    assert failed(GOOD) == []
    billing, archive = group_lines(GOOD)
    assert (billing.consumed, billing.consumed_again, billing.attributed, billing.resent) == (40, 5, 40, 7)
    assert (archive.client, archive.consumed_again) == ("aiokafka, 1 member", 0)


WRONG: list[tuple[str, Callable[[], Seen], str]] = [
    (
        "a lost record",
        lambda: with_billing(members=[member((0, 0, 11), (0, 13, 24), (1, 0, 14))]),
        "every record reached billing: missing: 1 records of partition 0; 1 rows, the first [12]",
    ),
    (
        "lost records at the end",
        lambda: with_billing(members=[member((0, 0, 24), (1, 0, 13))]),
        "missing: 1 records of partition 1; 1 rows, the first [39]",
    ),
    (
        "a record with another row's content",
        lambda: with_billing(members=[replace(BILLING.members[0], rows=b"\xff\xff\xff\xff\x7f"), BILLING.members[0]]),
        "1 rows, the first [39]",
    ),
    (
        "a row that was never written",
        lambda: replace(GOOD, delivered=ROWS - 1, undelivered=1),
        "every row is in the topic once: 39 of 40 acknowledged",
    ),
    (
        "a new generation",
        lambda: with_billing(after=replace(STABLE, generation=4)),
        "billing kept its generation when the offsets-partition actor was killed: before: generation 3",
    ),
    (
        "another member",
        lambda: with_billing(after=replace(STABLE, members=("a", "x"))),
        "after: generation 3 with a, x",
    ),
    (
        "a member that was never there",
        lambda: with_billing(before=replace(STABLE, members=("a",)), after=replace(STABLE, members=("a",))),
        "billing kept its generation",
    ),
    (
        "a coordinator that never answered",
        lambda: with_billing(
            before=Membership(generation=None, members=()), after=Membership(generation=None, members=())
        ),
        "generation None with no members",
    ),
    (
        "a committed offset that went back",
        lambda: replace(
            GOOD, commits=[*COMMITS[:-4], Commit(at_s=13, group="billing", partition=0, offset=8), *COMMITS[-4:]]
        ),
        "no committed offset went back: billing partition 0: 8 after 9",
    ),
    (
        "a group whose commits were not seen",
        lambda: replace(GOOD, commits=[commit for commit in COMMITS if commit.group != "archive"]),
        "no committed offset of archive was ever read",
    ),
    (
        "a group that did not commit the end",
        lambda: replace(GOOD, commits=COMMITS[:-1]),
        "every group committed up to the end of the topic: archive partition 1: 9 of 15",
    ),
    (
        "no commit between the kills",
        lambda: replace(GOOD, commits=[commit for commit in COMMITS if not 10 < commit.at_s < 20]),
        "billing went on committing after its actor was killed: no new committed offset",
    ),
    (
        "an actor that stayed away",
        lambda: replace(GOOD, actor=replace(GOOD.actor, pid_after=None)),
        "offsets-9 was killed and came back: pid 100 before, None after",
    ),
    (
        "a gateway that was not killed",
        lambda: replace(GOOD, gateway=replace(GOOD.gateway, pid_after=200)),
        "gateway-1 was killed and came back: pid 200 before, 200 after",
    ),
    (
        "too little attributed",
        lambda: replace(
            GOOD,
            consumption=replace(
                Consumption(),
                groups=(
                    GroupTotal(group="archive", messages=40, bytes=4000, distinct=40, resent=0),
                    GroupTotal(group="billing", messages=39, bytes=3900, distinct=39, resent=0),
                ),
            ),
        ),
        "attributed to billing is what its consumers counted: 39 attributed, 40 consumed",
    ),
    (
        "a group that is missing in the result",
        lambda: replace(GOOD, consumption=Consumption()),
        "attributed to archive is what its consumers counted: 0 attributed, 40 consumed",
    ),
    (
        "a gateway that counted what the tables do not have",
        lambda: replace(GOOD, counted={**GOOD.counted, (2, "archive"): (41, 4000)}),
        "gateway-2, archive: (40, 4000) messages and bytes in the tables, (41, 4000) counted",
    ),
    (
        "tables that have more than a gateway counted that was never killed",
        lambda: replace(GOOD, counted={**GOOD.counted, (2, "archive"): (40, 3999)}),
        "gateway-2, archive: (40, 4000) messages and bytes in the tables, (40, 3999) counted",
    ),
    (
        "tables that lost what a gateway counted before it was killed",
        lambda: replace(GOOD, first_life={(1, "billing"): (13, 1300)}),
        "gateway-1, billing: (17, 1700) messages and bytes in the tables, (18, 1800) counted",
    ),
    (
        "counters that were not queried",
        lambda: replace(
            GOOD, counted={}, first_life={}, consumption=replace(GOOD.consumption or Consumption(), gateways=())
        ),
        "Spark's totals are what the gateways' counters say",
    ),
    (
        "something unattributed",
        lambda: replace(
            GOOD,
            consumption=replace(
                GOOD.consumption or Consumption(),
                unattributed=(
                    Unattributed(
                        reason="ambiguous", topic="flights", client_id="rdkafka", host="127.0.0.1", messages=5, bytes=1
                    ),
                ),
            ),
        ),
        "nothing is unattributed: 5 messages of flights to rdkafka: ambiguous",
    ),
    (
        "a Spark job that failed",
        lambda: replace(GOOD, consumption=None),
        "nothing is unattributed: the Spark job failed",
    ),
    (
        "a consumer that crashed",
        lambda: with_billing(members=[replace(BILLING.members[0], exit_code=-9), BILLING.members[1]]),
        "every consumer ended by itself after SIGTERM: billing ended with -9",
    ),
]


@pytest.mark.parametrize(
    ("seen", "said"), [(seen, said) for _, seen, said in WRONG], ids=[name for name, _, _ in WRONG]
)
def test_what_went_wrong_is_said(seen: Callable[[], Seen], said: str) -> None:
    assert any(said in line for line in failed(seen())), failed(seen())


def test_records_that_the_producer_wrote_twice_count_for_the_groups_and_are_a_failure() -> None:
    twice = replace(
        GOOD,
        ends={0: 25, 1: 17},
        groups={
            name: replace(group, members=[*group.members, replace(member(), total=2, intervals={1: [(15, 16)]})])
            for name, group in GOOD.groups.items()
        },
    )
    checks = {check.name: check for check in check_all(twice)}
    once = checks["every row is in the topic once"]
    assert (once.held, once.detail) == (False, "40 of 40 acknowledged, 42 records in the topic")
    assert checks["every record reached billing"].held
    assert consumed_offsets(twice.groups["billing"]) == 42
    assert not checks["what the gateways attributed to billing is what its consumers counted"].held
