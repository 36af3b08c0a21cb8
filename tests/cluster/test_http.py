"""HTTP of every gateway of a running Muster, about the whole cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from muster.gateway.cli.storage import directory as storage
from tests.muster_process import Muster


def test_every_gateway_names_all_gateways_to_prometheus(muster: Muster) -> None:
    urls = sorted(str(actor["metrics_url"]) for actor in muster.actors().values() if actor["metrics_url"])
    assert len(urls) == 2
    for url in urls:
        with urlopen(url.replace("/metrics", "/v1/prometheus/targets"), timeout=30) as response:
            found = json.load(response)
        assert sorted(target for group in found for target in group["targets"]) == [
            urlsplit(each).netloc for each in urls
        ]


def test_every_gateway_has_the_status(muster: Muster) -> None:
    for url in muster.metrics_urls:
        with urlopen(url.replace("/metrics", "/v1/status"), timeout=30) as response:
            assert json.load(response) == muster.status()


@pytest.mark.parametrize("by", ["storage", "address"])
def test_the_command_gets_it_from_a_gateway(muster: Muster, by: str) -> None:
    """Without the cluster's modules, which connect to Ray; with a storage directory, without Ray altogether."""
    found, imported = run(muster, by, "status")
    assert found == muster.status()
    assert "muster.gateway.cli.http_client" in imported
    assert bool({"ray", "ray._raylet"} & imported) == (by == "address")
    assert not {"muster.gateway.cluster", "confluent_kafka", "muster.actors.config"} & imported


def test_commands_about_groups_need_only_a_gateway_too(muster: Muster) -> None:
    found, imported = run(muster, "address", "groups", "waiting")
    assert not found["partial"]
    assert "muster.gateway.cluster" not in imported


def run(muster: Muster, by: str, *command: str) -> tuple[dict[str, Any], set[str]]:
    """Return the JSON of a command that is given the storage or the address of Ray, and the modules it imported."""
    state = storage.read_state(muster.storage)
    assert state is not None
    where = {"storage": str(muster.storage), "address": state.ray_address}
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(state.ray_token_path)}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "muster.gateway.cli.main", *command, "--json", f"--{by}", where[by]],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=(muster.environment or os.environ) | (token if by == "address" else {}),
    )
    return json.loads(done.stdout), {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
