"""GET /v1/status: what the controller says now, or that it does not respond."""

from __future__ import annotations

import json

from tests.gateway.serving import CLUSTER_ID, Serving


def test_it_is_the_controllers(full: Serving) -> None:
    status, text = full.http("/v1/status")
    assert (status, json.loads(text)) == (200, full.run(full.controller.status()))
    assert json.loads(text)["cluster_id"] == CLUSTER_ID


def test_none_is_kept_for_when_the_controller_is_down(full: Serving) -> None:
    assert full.http("/v1/status")[0] == 200
    full.controller.away = True
    try:
        status, text = full.http("/v1/status")
    finally:
        full.controller.away = False
    assert (status, json.loads(text)) == (503, {"error": "the controller does not respond: away"})
