"""Which starts are refused because strangers could come in."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from muster.actors.config import MusterConfig
from muster.gateway.cli.lifecycle.config_checks import check_exposure

ROOT = Path(__file__).parents[2]
SASL = {"sasl.enabled.mechanisms": "PLAIN", "sasl.credentials.file": "/users"}
TOKENS = {"http.tokens.file": "/tokens"}
NAMED = {"listeners.unauthenticated.enable": "true"}


def _refusal(properties: dict[str, str], on_cluster: bool) -> str | None:
    try:
        check_exposure(MusterConfig.from_properties(properties), on_cluster=on_cluster)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("properties", "on_cluster"),
    [
        ({}, False),
        (
            {
                "listeners": "PLAINTEXT://127.0.0.2:0,B://[::1]:0",
                "listener.security.protocol.map": "B:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            },
            True,
        ),
        ({"listeners": "PLAINTEXT://localhost:0"}, True),
        (SASL, True),
        (NAMED, True),
        ({"listeners": "PLAINTEXT://0.0.0.0:0", **NAMED}, False),
    ],
)
def test_what_is_closed_or_requested_starts(properties: dict[str, str], on_cluster: bool) -> None:
    assert _refusal(properties, on_cluster) is None


@pytest.mark.parametrize(
    ("properties", "on_cluster", "which"),
    [
        ({}, True, "listener PLAINTEXT (PLAINTEXT) and the HTTP port"),
        (TOKENS, True, "listener PLAINTEXT (PLAINTEXT)"),
        ({"listeners": "PLAINTEXT://0.0.0.0:0"}, False, "listener PLAINTEXT (PLAINTEXT) and the HTTP port"),
        ({"listeners": "PLAINTEXT://kafka.example.com:0"}, False, "listener PLAINTEXT (PLAINTEXT) and the HTTP port"),
        ({"listeners": "PLAINTEXT://[::]:0"}, False, "listener PLAINTEXT (PLAINTEXT) and the HTTP port"),
        (
            {"listeners": "SASL_PLAINTEXT://:9092,PLAINTEXT://:9093", **SASL},
            True,
            "listener PLAINTEXT (PLAINTEXT)",
        ),
    ],
)
def test_what_is_open_is_named(properties: dict[str, str], on_cluster: bool, which: str) -> None:
    found = _refusal(properties, on_cluster)
    assert found is not None
    assert found.startswith(f"other hosts could use {which} without authentication: ")
    assert "--insecure" in found


def test_what_is_shipped_says_what_it_opens() -> None:
    (up,) = (
        command
        for command in yaml.safe_load((ROOT / "cluster.yaml").read_text())["head_start_ray_commands"]
        if "muster up" in command
    )
    assert " --insecure " in up
    assert "listeners.unauthenticated.enable=true" in (ROOT / "deploy/kuberay.yaml").read_text()
