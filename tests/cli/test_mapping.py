"""``muster mapping``: its refusals and how it prints nodes; tests/cluster/test_mapping.py has a running Muster."""

from __future__ import annotations

import json

import pytest

from muster.gateway.cli import mapping
from muster.gateway.cli.mapping_rows import Filter, aside_rows, divergence_rows, node_rows, planned_rows
from muster.placement.mapping.divergence import Aside, Difference, Divergence
from muster.placement.mapping.nodes import encode_registration, kop_path, registration_path
from muster.placement.mapping.registration import Registration
from tests.cli.conftest import Muster, one_line
from tests.cli.runner import runner
from tests.placement.strategies import registration

EVERYTHING = Filter()
ODD = registration("a:b/c", "m/1", host="2001:db8::1", client_id=None, principal="User:anna", partitions=None)


@pytest.mark.parametrize(("command", "code"), [("list", 1), ("check", 2), ("repair", 1), ("repair --dry-run", 1)])
def test_nothing_runs_here(muster: Muster, command: str, code: int) -> None:
    """Exit code 1 of check means that it found differences."""
    done = muster("mapping", *command.split())
    assert "no muster runs on storage muster-data" in one_line(done)
    assert done.returncode == code


def nodes(*some: Registration) -> dict[str, bytes]:
    return {registration_path(one): encode_registration(one) for one in some}


def test_nodes_are_decoded_and_what_is_no_registration_is_named() -> None:
    flat, nothing = kop_path("10.0.0.1", "rdkafka"), "/client_group_id/10.0.0.1/rdkafka/debris"
    held = nodes(ODD, registration("billing")) | {
        flat: b"billing",
        nothing: b"x" * 100,
        "/client_group_id/10.0.0.1": b"",
    }
    rows = node_rows(held, EVERYTHING)
    assert json.loads(json.dumps(rows)) == rows
    by_kind = {row["kind"]: row for row in rows if row.get("group") == "billing"}
    assert by_kind["kop"] == {"host": "10.0.0.1", "client_id": "rdkafka", "group": "billing", "kind": "kop"}
    assert by_kind["member"]["partitions"] == ["flights-0", "flights-1"]
    (odd,) = (row for row in rows if row.get("group") == "a:b/c")
    assert (odd["host"], odd["client_id"], odd["member"]) == ("2001:db8::1", None, "m/1")
    assert (odd["principal"], odd["partitions"]) == ("User:anna", None)
    (debris,) = (row for row in rows if "path" in row)
    assert debris["path"] == nothing
    assert len(rows) == 4


@pytest.mark.parametrize(
    ("wanted", "groups"),
    [
        (Filter(group="billing"), {"billing"}),
        (Filter(host="10.0.0.1"), {"billing", "dashboard"}),
        (Filter(host="[2001:DB8:0::1]:9092"), {"a:b/c"}),
        (Filter(client_id="rdkafka", group="dashboard"), {"dashboard"}),
        (Filter(client_id=""), set()),
    ],
)
def test_filters(wanted: Filter, groups: set[str]) -> None:
    held = nodes(ODD, registration("billing"), registration("dashboard"))
    assert {row["group"] for row in node_rows(held, wanted)} == groups


def test_a_list_of_nothing_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "_call_reconciler", lambda *_: {})
    shown = runner().invoke(mapping.list_, [])
    assert (shown.stdout, shown.stderr) == ("", "the mapping is empty\n")


def test_rows_of_differences_and_plans_say_what_they_are_about() -> None:
    path = registration_path(ODD)
    differs = [
        Divergence(path, Difference.NEWER, b"{}"),
        Divergence(kop_path("10.0.0.1", "rdkafka"), Difference.MISSING, b"billing"),
        Divergence("/client_group_id/10.0.0.9", Difference.STALE, None),
    ]
    newer, missing, stale = divergence_rows(differs, EVERYTHING)
    assert (newer["difference"], newer["group"], newer["member"]) == ("newer", "a:b/c", "m/1")
    assert (missing["difference"], missing["kind"], missing["group"]) == ("missing", "kop", "billing")
    assert (stale["difference"], stale["kind"], stale["path"]) == ("stale", "folder", "/client_group_id/10.0.0.9")
    assert [row["action"] for row in planned_rows(differs, EVERYTHING)] == ["set", "create", "remove"]
    assert [row["kind"] for row in divergence_rows(differs, Filter(group="billing"))] == ["kop"]
    why = [row["why"] for row in aside_rows([Aside(path, 3), Aside(path, None)], EVERYTHING)]
    assert why == ["the coordinator offsets-3 is not Active", "its owner is unknown"]
