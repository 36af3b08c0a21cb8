"""Output of ``muster groups lag`` and ``list``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from rich.console import Console

from muster.actors.runtime import rich_console
from muster.gateway.cli.groups.commands import groups
from tests.cli.runner import runner
from tests.cli.test_coordinator import gateways


def row(partition: int, committed: int | None, without: int) -> dict[str, Any]:
    lag = None if committed is None else 604 - committed
    known = {"topic": "invoices", "partition": partition, "committed_offset": committed, "end_offset": 604}
    return {**known, "lag": lag, "lag_s": lag and 2.5, "messages_without_commit": without, "client_id": "worker-a"}


def summary(group: str, **changes: Any) -> dict[str, Any]:
    known = {
        "group": group,
        "state": "CompletingRebalance",
        "type": "classic",
        "protocol_type": "consumer",
        "members": 1,
    }
    sums = {"lag": 0, "lag_s": None, "behind": 0, "partitions": 0, "without_commit": 3, "messages_without_commit": 3000}
    return {**known, **sums, **changes}


GROUPS = [
    summary("newcomers" * 4),
    summary("billing", lag=597, lag_s=24.5, behind=2, partitions=2, without_commit=1, messages_without_commit=604),
    summary("late", lag=7, lag_s=86_400.0, behind=1, partitions=1, without_commit=0, messages_without_commit=0),
]
ALL = {"groups": GROUPS, "total": 3, "missing_partitions": [], "missing_actors": []}
BILLING = {"group": "billing", "state": "Stable", "lag": 597, "lag_s": 2.5, "behind": 2}
BILLING |= {"without_commit": 1, "messages_without_commit": 604, "partitions": [row(0, None, 604), row(1, 7, 0)]}
NEWCOMERS = {"group": "newcomers", "state": "Stable", "lag": 0, "lag_s": None, "behind": 0}
NEWCOMERS |= {
    "without_commit": 2,
    "messages_without_commit": 1208,
    "partitions": [row(0, None, 604), row(1, None, 604)],
}


Invoke = Callable[..., Result]


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Run ``invoke(response, *arguments)`` on a gateway with that response, and 80 columns."""

    def console(err: bool = False, wide: bool = False) -> Console:
        return Console(width=80, force_terminal=True, color_system=None, stderr=err)

    def run(response: dict[str, Any], *arguments: str) -> Result:
        with gateways(tmp_path, (200, json.dumps(response).encode())):
            return runner().invoke(groups, [*arguments, "--storage", str(tmp_path)])

    monkeypatch.setattr(rich_console, "console", console)
    return run


@pytest.mark.parametrize("command", ["lag", "list"])
def test_partitions_without_a_commit_are_a_column_on_80_columns(invoke: Invoke, command: str) -> None:
    done = invoke(ALL, command)
    head, *lines = done.stdout.splitlines()
    assert max(map(len, (head, *lines))) <= 80
    assert head.endswith("LAG  LAG (S)  NO COMMIT")
    assert [line.split()[-3:] for line in lines[:3]] == [["-", "-", "3"], ["597", "24.5", "1"], ["7", "86400", "0"]]
    assert "3 groups, 3 members, lag 604, 4 partitions without a commit" in done.stderr


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (
            BILLING,
            [
                "group billing is Stable, 597 messages in 2 partitions behind, 2.5 s",
                "1 partition without a commit (604 messages in its log) is in no sum",
            ],
        ),
        (
            NEWCOMERS,
            [
                "group newcomers is Stable",
                "2 partitions without a commit (1208 messages in their logs) are in no sum",
            ],
        ),
    ],
)
def test_what_is_in_no_sum_is_said(invoke: Invoke, response: dict[str, Any], said: list[str]) -> None:
    assert invoke(response, "lag", response["group"]).stderr.splitlines() == said


@pytest.mark.parametrize(("more", "sort"), [([], "worst"), (["--sort", "lag"], "lag")])
def test_the_order_is_the_gateways(invoke: Invoke, more: list[str], sort: str) -> None:
    shown = json.loads(invoke({"request": "PATH"}, "lag", "--json", *more).stdout)
    assert shown["request"] == f"/v1/groups/lag?limit=20&sort={sort}"
