"""deploy/aws.yaml with cluster.yaml: Ray considers it valid, and it does on AWS what cluster.yaml does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    """Return the merged configuration that its comments describe."""
    command = ["-m", "muster.gateway.cli.lifecycle.host", "merge", "cluster.yaml", "deploy/aws.yaml"]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded: dict[str, Any] = yaml.safe_load(done.stdout)
    return loaded


def test_ray_finds_it_valid(config: dict[str, Any]) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(config))


def test_hosts_run_the_commands_of_cluster_yaml(config: dict[str, Any]) -> None:
    """Whole, as they are run: the merge keeps every character."""
    base = yaml.safe_load((ROOT / "cluster.yaml").read_text())
    changed = yaml.safe_load((ROOT / "deploy/aws.yaml").read_text()).keys()
    assert not changed & {"file_mounts", "setup_commands", "head_start_ray_commands", "worker_start_ray_commands"}
    for key in base.keys() - changed:
        assert config[key] == base[key], key
    assert "min_workers" not in config


def test_as_many_nodes_as_muster_waits_for(config: dict[str, Any]) -> None:
    worker = config["available_node_types"]["worker"]
    assert worker["min_workers"] == worker["max_workers"] == config["max_workers"]
    (up,) = (command for command in config["head_start_ray_commands"] if "muster up" in command)
    assert f"--nodes {config['max_workers'] + 1} " in up


def test_the_mounted_directory_is_the_storage(config: dict[str, Any]) -> None:
    (up,) = (command for command in config["head_start_ray_commands"] if "muster up" in command)
    found = re.search(r"--storage (\S+)", up)
    assert found is not None
    (mount,) = (command for command in config["initialization_commands"] if "mountpoint" in command)
    assert f"mountpoint -q {found[1]} " in mount
    (fstab,) = (command for command in config["initialization_commands"] if "/etc/fstab" in command)
    assert f" {found[1]} nfs4 " in fstab
    assert ",hard," in fstab
    assert "lookupcache=none" in fstab


def test_clients_are_admitted_where_gateways_listen(config: dict[str, Any]) -> None:
    ports = {rule["FromPort"] for rule in config["provider"]["security_group"]["IpPermissions"]}
    (up,) = (command for command in config["head_start_ray_commands"] if "muster up" in command)
    assert ports == {9092, 9404, 9600}
    assert "--port 9092 " in up


def test_commands_are_shell(config: dict[str, Any]) -> None:
    for command in [*config["initialization_commands"], *config["head_setup_commands"]]:
        done = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_the_zone_is_exported_once(config: dict[str, Any], tmp_path: Path) -> None:
    """With a recorder in place of the instance's metadata service."""
    (zone,) = (command for command in config["initialization_commands"] if "RAY_NODE_ZONE" in command)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "curl").write_text(
        '#!/bin/sh\ncase "$*" in *api/token) echo t;; *"metadata-token: t"*) echo eu-1b;; esac\n'
    )
    (tools / "curl").chmod(0o755)
    (tmp_path / ".bashrc").write_text("return\n")
    for _ in range(2):
        environment = {"HOME": str(tmp_path), "PATH": f"{tools}:/usr/bin:/bin"}
        subprocess.run(["bash", "-c", zone], env=environment, check=True)
    assert (tmp_path / ".bashrc").read_text() == "export RAY_NODE_ZONE=eu-1b\nreturn\n"
