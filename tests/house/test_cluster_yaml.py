"""cluster.yaml: Ray considers it valid, and ``ray up`` sends the right commands to the hosts."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.hosts.cluster import edited, with_gcs, with_zookeeper

ROOT = Path(__file__).resolve().parents[2]

RECORDER = """#!{python} -I
import json, os, sys
with open({log!r}, "a") as log:
    log.write(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]) + "\\n")
"""


@pytest.fixture
def config() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "cluster.yaml").read_text())
    return loaded


def test_ray_finds_it_valid(config: dict[str, Any]) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(config))


def test_ray_finds_a_misspelt_key(config: dict[str, Any]) -> None:
    from jsonschema import ValidationError
    from ray.autoscaler._private.util import prepare_config, validate_config

    config["setup_comands"] = []
    with pytest.raises(ValidationError):
        validate_config(prepare_config(config))


def test_head_and_workers_agree_on_how_ray_runs(config: dict[str, Any]) -> None:
    """Tokens on every node, or workers silently fail to join; failure detection is the same everywhere."""
    head, worker = (
        dict(re.findall(r"\b(RAY_\w+)=(\d+|token)", _with("ray start", config[f"{kind}_start_ray_commands"])))
        for kind in ("head", "worker")
    )
    assert head == worker
    assert head["RAY_AUTH_MODE"] == "token"


def test_the_gcs_survives_a_boot_of_the_head_and_not_ray_up(config: dict[str, Any]) -> None:
    """The store is emptied by `ray up`, before it starts Ray, and not by the command that starts Ray alone."""
    commands = config["head_start_ray_commands"]
    start = _with("ray start", commands)
    (folder,) = re.findall(r"RAY_gcs_storage=rocksdb RAY_gcs_storage_path=(\S+)", start)
    before = commands[commands.index(start) - 1]
    assert before == f"ray stop && rm -rf {folder} && mkdir -m 700 {folder}"
    assert "rm " not in start
    assert "RAY_gcs_storage" not in _with("ray start", config["worker_start_ray_commands"])


def test_the_numbers_of_hosts_agree(config: dict[str, Any]) -> None:
    workers = len(config["provider"]["worker_ips"])
    assert config["min_workers"] == config["max_workers"] == workers
    assert f"--nodes {workers + 1} " in _with("muster up", config["head_start_ray_commands"])


def test_the_muster_that_is_stopped_is_the_one_that_is_started(config: dict[str, Any]) -> None:
    commands = config["head_start_ray_commands"]
    down, up = (re.findall(r"--storage (\S+)", _with(f"muster {verb}", commands)) for verb in ("down", "up"))
    assert down == up


def test_hosts_install_what_runs_and_no_tools(config: dict[str, Any]) -> None:
    """In the versions of the tests. setuptools builds Muster there."""
    everything, hosts = _pins("requirements.lock"), _pins("requirements-hosts.lock")
    assert hosts.items() <= everything.items(), "run: make lock"
    assert not hosts.keys() & {"pytest", "hypothesis", "ruff", "mypy", "pip-tools", "aiokafka", "kafka-python"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    assert {re.split(r"[^\w-]", requirement)[0].lower() for requirement in needed} <= hosts.keys(), "run: make lock"
    assert "-r ~/muster/requirements-hosts.lock" in _with("--require-hashes", config["setup_commands"])


def _pins(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / name).read_text(), re.MULTILINE))


def _with(text: str, commands: list[str]) -> str:
    (found,) = (command for command in commands if text in command)
    return found


@dataclass
class Sent:
    """The calls of ``ray up``: argument lists of ssh and of rsync, in order."""

    ssh: list[str]
    rsync: list[list[str]]


@pytest.fixture
def sent(tmp_path: Path) -> Sent:
    """Run ``ray up`` in its own directory and home, with recorders in place of ssh and rsync first in PATH."""
    log, tools, home = tmp_path / "log", tmp_path / "bin", tmp_path / "home"
    for folder in (tools, home / ".ssh", tmp_path / "dist/muster", tmp_path / "tmp"):
        folder.mkdir(parents=True)
    for name in ("ssh", "rsync", "scp"):
        (tools / name).write_text(RECORDER.format(python=sys.executable, log=str(log)))
        (tools / name).chmod(0o755)
    (home / ".ssh/id_ed25519").write_text("a key")
    (tmp_path / "auth_token").write_text("a token")
    (tmp_path / "dist/muster/pyproject.toml").write_text("")
    shutil.copy(ROOT / "cluster.yaml", tmp_path)
    ray = Path(sys.executable).with_name("ray")
    done = subprocess.run(
        [str(ray), "up", "cluster.yaml", "-y", "--no-config-cache"],
        cwd=tmp_path,
        env={
            "PATH": f"{tools}:/usr/bin:/bin",
            "HOME": str(home),
            "TMPDIR": str(tmp_path / "tmp"),
            "RAY_TMPDIR": str(tmp_path / "tmp"),  # the provider's state, by the cluster's name
            "RAY_UP_enable_autoscaler_v2": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    calls = [json.loads(line) for line in log.read_text().splitlines()]
    return Sent(
        ssh=[" ".join(call[1:]) for call in calls if call[0] == "ssh"],
        rsync=[call[1:] for call in calls if call[0] == "rsync"],
    )


def test_ray_up_sends_token_checkout_and_commands_in_order(sent: Sent) -> None:
    copied = [" ".join(call) for call in sent.rsync]
    assert any("auth_token" in call and "10.0.0.10" in call for call in copied)
    assert any("dist/muster" in call and "10.0.0.10" in call for call in copied)
    steps = ["venv ~/muster-venv", "--require-hashes", "--no-deps", "muster down", "ray stop"]
    steps += ["ray start --head", "muster up --address auto"]
    found = [next((index for index, call in enumerate(sent.ssh) if step in call), None) for step in steps]
    assert None not in found, found
    assert found == sorted(found, key=lambda index: index or 0)


def test_ray_up_starts_the_head_with_token_and_autoscaling(sent: Sent) -> None:
    (head,) = (call for call in sent.ssh if "ray start --head" in call)
    assert "RAY_AUTH_MODE=token" in head
    assert "--autoscaling-config=~/ray_bootstrap_config.yaml" in head
    (up,) = (call for call in sent.ssh if "muster up" in call)
    assert "RAY_AUTH_MODE=token" in up
    assert all(option in up for option in ("--storage /srv/muster", "--ready-file", "--detach ~/muster.log"))
    assert not any(host in call for call in sent.ssh for host in ("10.0.0.11", "10.0.0.12")), "workers: the head's job"


def test_hosts_that_are_added_are_entered_in_the_list_of_the_autoscaler(tmp_path: Path) -> None:
    """The others keep what the autoscaler knows of them."""
    file = tmp_path / "ray_bootstrap_config.yaml"
    command = [sys.executable, "-m", "muster.gateway.cli.lifecycle.host", "enlist", str(file)]
    provider: dict[str, Any] = {"type": "local", "head_ip": "10.0.0.10", "worker_ips": ["10.0.0.11"]}
    environment = {**os.environ, "RAY_TMPDIR": str(tmp_path)}
    file.write_text(json.dumps({"cluster_name": "muster", "provider": provider}))
    subprocess.run(command, check=True, env=environment)
    state = tmp_path / "ray" / "cluster-muster.state"
    hosts = json.loads(state.read_text())
    hosts["10.0.0.11"]["state"] = "running"
    state.write_text(json.dumps(hosts))

    provider["worker_ips"].append("10.0.0.12")
    file.write_text(json.dumps({"cluster_name": "muster", "provider": provider}))
    subprocess.run(command, check=True, env=environment)
    hosts = json.loads(state.read_text())
    assert {address: host["state"] for address, host in hosts.items() if address != "10.0.0.10"} == {
        "10.0.0.11": "running",
        "10.0.0.12": "terminated",
    }


def test_the_cluster_yaml_of_the_hosts_differs_where_edit_says_so() -> None:
    """Replacements of ``make ring-hosts``, for a Redis, and for a ZooKeeper elsewhere."""
    before = (ROOT / "cluster.yaml").read_text()
    after = edited(before, "10.9.0.1", ["10.9.0.2"], Path("/key"))
    changed = [line for line, new in zip(before.splitlines(), after.splitlines(), strict=True) if line != new]
    assert len(changed) == 7
    test_the_numbers_of_hosts_agree(yaml.safe_load(after))
    elsewhere = yaml.safe_load(with_zookeeper(with_gcs(after, "10.9.0.9:6379"), "10.9.0.9:2181"))
    test_the_numbers_of_hosts_agree(elsewhere)
    start = _with("ray start", elsewhere["head_start_ray_commands"])
    assert "RAY_REDIS_ADDRESS=10.9.0.9:6379 " in start
    assert "RAY_gcs_storage" not in start
    assert "--zookeeper 10.9.0.9:2181 " in _with("muster up", elsewhere["head_start_ray_commands"])
