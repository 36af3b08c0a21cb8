"""Where commands get the status from: a gateway of the run state, else the Ray that it names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.gateway.cli.errors import CliError
from muster.gateway.cli.running import status_of
from tests.cli.test_coordinator import NO_RAY, OTHER, gateways

STATUS = {"of": "gateway"}
RESPONSE = (200, json.dumps(STATUS).encode())


def test_the_first_gateway_that_has_one(tmp_path: Path) -> None:
    with gateways(tmp_path, None, (200, b"no JSON"), (200, b"[]"), (404, b""), OTHER, RESPONSE):
        assert status_of(tmp_path, None) == STATUS


@pytest.mark.parametrize("response", [None, OTHER, (503, b'{"error": "the controller"}'), (403, b"{}"), (404, b"")])
def test_through_ray_if_none_has(tmp_path: Path, response: tuple[int, bytes] | None) -> None:
    with gateways(tmp_path, response), pytest.raises(CliError, match=f"no Ray responds at {NO_RAY}"):
        status_of(tmp_path, None)


def test_a_muster_whose_up_was_killed_is_said_to_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with gateways(tmp_path, RESPONSE):
        (tmp_path / "run" / "lock").unlink()
        assert status_of(tmp_path, None) == STATUS
    assert "was killed, but its actors still serve" in capsys.readouterr().err
