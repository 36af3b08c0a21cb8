"""``POST /v1/nodes/drain`` and ``undrain``, with drains in a real ZooKeeper."""

from __future__ import annotations

from typing import Any

import pytest

from muster.gateway.security.authorization.authorizer import Authorizer
from tests.gateway.administration.test_recorded import rows
from tests.gateway.http.test_group_changes import Post, get, post, sent
from tests.gateway.serving import Serving

__all__ = ["post", "rows"]


@pytest.fixture(autouse=True)
def undrained(full: Serving) -> None:
    for node in ("n1", "n2"):
        full.run(full.controller.undrain(node))


def states(full: Serving) -> dict[str, str]:
    return {node["node_id"]: node["state"] for node in get(full, "/v1/status")[1]["nodes"]}


def test_a_node_is_drained_and_the_last_one_is_not(full: Serving, post: Post, rows: list[Any]) -> None:
    assert post("/v1/nodes/drain", node_id="n1") == (200, {"node_id": "n1"})
    assert states(full) == {"n1": "drained", "n2": "alive"}
    status, refused = post("/v1/nodes/drain", node_id="n2")
    assert (status, "last one" in refused["error"]) == (409, True)
    assert post("/v1/nodes/undrain", node_id="n1") == (200, {"node_id": "n1"})
    assert states(full) == {"n1": "alive", "n2": "alive"}
    seen = [(row["door"], row["api"], row["resource_type"], row["resource"], row["error"]) for row in rows]
    assert seen == [
        ("http", "POST /v1/nodes/drain", "NODE", "n1", "200"),
        ("http", "POST /v1/nodes/drain", "NODE", "n2", "409"),
        ("http", "POST /v1/nodes/undrain", "NODE", "n1", "200"),
    ]


def test_what_is_no_node_is_404(post: Post) -> None:
    for path in ("/v1/nodes/drain", "/v1/nodes/undrain"):
        assert post(path, node_id="nowhere")[0] == 404
        assert post(path)[0] == 400


def test_a_controller_that_is_away_is_503(full: Serving, post: Post) -> None:
    full.controller.away = True
    try:
        assert post("/v1/nodes/drain", node_id="n1")[0] == 503
    finally:
        full.controller.away = False
    assert states(full)["n1"] == "alive"


def test_it_needs_alter_on_the_cluster_and_changes_to_be_on(full: Serving, post: Post, rows: list[Any]) -> None:
    full.gateway.authorizer = Authorizer((), set(), allow_everyone=False)
    assert post("/v1/nodes/drain", node_id="n1")[0] == 403
    full.gateway.authorizer = None
    assert states(full)["n1"] == "alive"
    assert [(row["resource_type"], row["error"]) for row in rows] == [("NODE", "403")]


def test_it_is_off_by_default(full: Serving) -> None:
    status, refused = sent(full, "/v1/nodes/drain", {"node_id": "n1"})
    assert (status, "http.changes.enable=true" in refused["error"]) == (403, True)
    assert states(full)["n1"] == "alive"
