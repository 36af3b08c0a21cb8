"""Nodes of the client-to-group mapping in words: decoded, filtered, one dict for each; keys are those of the JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muster.placement.layout import Malformed
from muster.placement.mapping.divergence import Aside, Difference, Divergence, node_kind, unit_of
from muster.placement.mapping.nodes import Undecodable, decode_registration, decode_segment, host_text

if TYPE_CHECKING:
    from muster.actors.reconciler.reconciler import Comparison

_SHOWN_BYTES = 60
_ACTIONS = {Difference.MISSING: "create", Difference.WRONG: "set", Difference.NEWER: "set", Difference.STALE: "remove"}


@dataclass(frozen=True, slots=True)
class Filter:
    """Rows to show; None for all."""

    group: str | None = None
    host: str | None = None
    client_id: str | None = None

    def takes(self, row: Mapping[str, Any]) -> bool:
        """Return whether the row matches; a row without the field does not."""
        host = None if self.host is None else host_text(self.host)
        wanted = (("group", self.group), ("host", host), ("client_id", self.client_id))
        return all(value is None or row.get(name) == value for name, value in wanted)


def node_rows(nodes: Mapping[str, bytes], wanted: Filter) -> list[dict[str, Any]]:
    """Return registrations and KoP's nodes, without those of hosts and clients; any other has ``path`` and
    ``holds``."""
    rows = (_node_row(path, nodes[path]) for path in sorted(nodes) if node_kind(path) != "folder" or nodes[path])
    return [row for row in rows if wanted.takes(row)]


def divergence_rows(divergences: Iterable[Divergence], wanted: Filter) -> list[dict[str, Any]]:
    """Return the differences."""
    rows = ({"difference": one.difference.value, **_path_row(one.path, one.data)} for one in divergences)
    return [row for row in rows if wanted.takes(row)]


def planned_rows(divergences: Iterable[Divergence], wanted: Filter) -> list[dict[str, Any]]:
    """Return the actions of a repair."""
    rows = ({"action": _ACTIONS[one.difference], **_path_row(one.path, one.data)} for one in divergences)
    return [row for row in rows if wanted.takes(row)]


def done_rows(done: Iterable[tuple[str, str]], wanted: Filter) -> list[dict[str, Any]]:
    """Return the actions that a repair has taken."""
    rows = ({"action": action, **_path_row(path, None)} for action, path in done)
    return [row for row in rows if wanted.takes(row)]


def aside_rows(left_alone: Iterable[Aside], wanted: Filter) -> list[dict[str, Any]]:
    """Return the nodes that are not judged, and why."""
    rows = (
        {**_path_row(one.path, None), "offsets_partition": one.offsets_partition, "why": _why(one)}
        for one in left_alone
    )
    return [row for row in rows if wanted.takes(row)]


def summary(found: Comparison) -> dict[str, Any]:
    """Return the numbers of the comparison."""
    return {
        "active_coordinators": list(found.trusted),
        "registrations": found.registrations,
        "nodes": found.nodes,
    }


def _why(one: Aside) -> str:
    if one.offsets_partition is None:
        return "its owner is unknown"
    return f"the coordinator offsets-{one.offsets_partition} is not Active"


def _node_row(path: str, data: bytes) -> dict[str, Any]:
    if node_kind(path) == "kop" and (client := _client(path)) is not None:
        group = data.decode("utf-8", "replace")
        return {"host": client[0], "client_id": client[1], "group": group, "kind": "kop"}
    try:
        one = decode_registration(path, data)
    except Malformed:
        return {**_path_row(path, data), "holds": repr(data[:_SHOWN_BYTES])}
    partitions = None if one.partitions is None else [f"{topic}-{number}" for topic, number in sorted(one.partitions)]
    return {
        "host": one.host,
        "client_id": one.client_id,
        "group": one.group,
        "member": one.member_id,
        "kind": one.kind.value,
        "principal": one.principal,
        "generation": one.generation,
        "partitions": partitions,
        "coordinator": f"offsets-{one.offsets_partition}",
        "epoch": one.epoch,
        "sequence": one.sequence,
    }


def _path_row(path: str, data: bytes | None) -> dict[str, Any]:
    """Decode the names as far as possible: they may have been cut and hashed."""
    kind = node_kind(path)
    row: dict[str, Any] = {"kind": kind, "path": path}
    if client := _client(path):
        row |= {"host": client[0], "client_id": client[1]}
    if kind == "registration":
        group, colon, member = path.rpartition("/")[2].partition(":")
        row |= {"group": _decoded(group), "member": _decoded(member)} if colon else {}
    elif kind == "kop" and data is not None:
        row["group"] = data.decode("utf-8", "replace")
    return row


def _client(path: str) -> tuple[str | None, str | None] | None:
    """Return host and client id; None if the path has none that can be decoded."""
    host, slash, client_id = unit_of(path).partition("/")
    if not slash:
        return None
    try:
        return decode_segment(host), decode_segment(client_id)
    except Undecodable:
        return None


def _decoded(segment: str) -> str | None:
    try:
        return decode_segment(segment)
    except Undecodable:
        return None
