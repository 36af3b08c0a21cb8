"""The table ``repairs``: each write to the mapping that the reconciler tried, or would have tried without dry run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from muster.actors.reconciler.counts import RepairCounts, action_name
from muster.actors.runtime.event_writer import Add
from muster.placement.layout import Malformed
from muster.placement.mapping.divergence import node_kind
from muster.placement.mapping.nodes import (
    decode_registration,
    group_of_path,
    is_kop_path,
    is_registration_path,
    member_of_path,
)
from muster.placement.mapping.repair import Action, Node, Plan
from muster.placement.mapping.writes import Outcome

_OUTCOMES = {
    Outcome.DONE: "done",
    Outcome.NEEDLESS: "superseded",
    Outcome.LOST: "superseded",
    Outcome.TOO_LARGE: "refused",
}


class RepairHistory:
    """For one thread at a time. ``now_ms`` is the wall clock in ms."""

    def __init__(self, add: Add, now_ms: Callable[[], int]) -> None:
        self._add = add
        self._now_ms = now_ms
        self._refused: set[str] = set()
        self._planned: set[tuple[str, str]] = set()

    def tried(self, action: Action, outcome: Outcome, counts: RepairCounts, node: Node | None) -> None:
        """Record the outcome of a write; call this before the counts get it. ``node`` is what was seen at its path.

        A write that ZooKeeper refuses is tried in every round, but recorded once.
        """
        if outcome is Outcome.TOO_LARGE:
            if action.path in self._refused:
                return
            self._refused.add(action.path)
        else:
            self._refused.discard(action.path)
        self._record(action, counts, node, _OUTCOMES[outcome], dry_run=False)

    def planned(self, todo: Plan, counts: RepairCounts) -> None:
        """Record the plan of a dry run: each write once for as long as it stays in the plan."""
        before = self._planned
        self._planned = set()
        actions: tuple[Action, ...] = (*todo.creates, *todo.sets, *todo.removes)
        for action in actions:
            key = (action_name(action), action.path)
            self._planned.add(key)
            if key not in before:
                self._record(action, counts, todo.memory.seen.get(action.path), "planned", dry_run=True)

    def _record(self, action: Action, counts: RepairCounts, node: Node | None, outcome: str, *, dry_run: bool) -> None:
        group, member_id = _whose(action, node)
        now_ms, since_s = self._now_ms(), counts.since_s(action.path)
        diverged_ms = None if since_s is None else now_ms - round((time.monotonic() - since_s) * 1000)
        row: dict[str, Any] = {
            "ts": now_ms,
            "round": counts.round,
            "kind": f"{action_name(action)}_{node_kind(action.path)}",
            "dry_run": dry_run,
            "outcome": outcome,
            "path": action.path,
            "group": group,
            "member_id": member_id,
            "diverged": diverged_ms,
        }
        self._add(row)


def _whose(action: Action, node: Node | None) -> tuple[str | None, str | None]:
    """Group and member that a node is about: from its new data, from its old data, else from its name."""
    data = action.data if action.data is not None else (node.data if node is not None else None)
    if is_registration_path(action.path):
        try:
            registration = decode_registration(action.path, data or b"")
        except Malformed:
            return group_of_path(action.path), member_of_path(action.path)
        return registration.group, registration.member_id
    if is_kop_path(action.path) and data is not None:
        return data.decode("utf-8", "replace"), None
    return None, None
