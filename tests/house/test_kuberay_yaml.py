"""deploy/kuberay.yaml: its parts fit together. tests/conformance has KubeRay's schema, tests/nodes runs it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import javaproperties
import pytest
import yaml

from muster.actors.config import MusterConfig, Node

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def documents() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((ROOT / "deploy/kuberay.yaml").read_text()))


@pytest.fixture(scope="module")
def groups(documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Specifications of pods by the name of the group, which KubeRay gives the head, too."""
    (cluster,) = (each for each in documents if each["kind"] == "RayCluster")
    workers = {group["groupName"]: group["template"]["spec"] for group in cluster["spec"]["workerGroupSpecs"]}
    return {"headgroup": cluster["spec"]["headGroupSpec"]["template"]["spec"]} | workers


@pytest.fixture(scope="module")
def config(documents: list[dict[str, Any]]) -> MusterConfig:
    (found,) = (each for each in documents if each["kind"] == "ConfigMap")
    return MusterConfig.from_properties(javaproperties.loads(found["data"]["server.properties"]))


def container(pod: dict[str, Any]) -> dict[str, Any]:
    (found,) = pod["containers"]
    return dict(found)


def test_each_gateway_is_advertised_at_its_service(
    documents: list[dict[str, Any]], groups: dict[str, dict[str, Any]], config: MusterConfig
) -> None:
    _, outer = config.all_listeners
    advertised = {
        group: outer.address(Node(gateway_id=1, address="10.0.0.1", labels={"ray.io/node-group": group}), outer.port)
        for group in groups
    }
    services = [each for each in documents if each["kind"] == "Service" and each["spec"].get("type") == "LoadBalancer"]
    reached = {
        service["spec"]["selector"]["ray.io/group"]: (
            service["metadata"]["annotations"]["external-dns.alpha.kubernetes.io/hostname"],
            service["spec"]["ports"][0]["port"],
        )
        for service in services
    }
    assert reached == advertised


def test_ports_are_those_of_the_listeners(groups: dict[str, dict[str, Any]], config: MusterConfig) -> None:
    listening = {
        *(listener.port for listener in config.all_listeners),
        config.first_metrics_port,
        config.console_ports[0],
    }
    for pod in groups.values():
        assert {port["containerPort"] for port in container(pod)["ports"]} == listening
        assert container(pod)["readinessProbe"]["tcpSocket"]["port"] == config.all_listeners[1].port


def test_who_is_outside_has_to_log_in(config: MusterConfig) -> None:
    assert [listener.needs_login for listener in config.all_listeners] == [False, True]


def test_muster_waits_for_all_pods(documents: list[dict[str, Any]], groups: dict[str, dict[str, Any]]) -> None:
    (command,) = container(groups["headgroup"])["args"]
    assert f"--nodes {len(groups)} " in command
    (cluster,) = (each for each in documents if each["kind"] == "RayCluster")
    for group in cluster["spec"]["workerGroupSpecs"]:
        assert {group[key] for key in ("replicas", "minReplicas", "maxReplicas")} == {1}, "a Service per gateway"


def test_what_is_mounted_is_there(
    documents: list[dict[str, Any]], groups: dict[str, dict[str, Any]], config: MusterConfig
) -> None:
    names = {document["kind"]: document["metadata"]["name"] for document in documents}
    claims = [each["metadata"]["name"] for each in documents if each["kind"] == "PersistentVolumeClaim"]
    for pod in groups.values():
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container(pod)["volumeMounts"]}
        assert mounts[config.storage_path]["persistentVolumeClaim"]["claimName"] in claims
        assert mounts["/etc/muster"]["configMap"]["name"] == names["ConfigMap"]
        assert str(Path(config.sasl_credentials_file or "").parent) in mounts


def test_the_store_of_the_gcs_moves_with_the_head(
    documents: list[dict[str, Any]], groups: dict[str, dict[str, Any]]
) -> None:
    """On a volume that one pod at a time has: no other may name it, or it could not be attached to the head's."""
    (claim,) = (each for each in documents if each["metadata"]["name"] == "muster-gcs")
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    named = {group: str(pod["volumes"]) for group, pod in groups.items()}
    assert [group for group, volumes in named.items() if "muster-gcs" in volumes] == ["headgroup"]
    (command,) = container(groups["headgroup"])["args"]
    (store,) = re.findall(r"RAY_gcs_storage=rocksdb RAY_gcs_storage_path=(\S+)", command)
    mounts = {mount["mountPath"]: mount["name"] for mount in container(groups["headgroup"])["volumeMounts"]}
    assert mounts[str(Path(store).parent)] == "gcs"


def test_ray_runs_as_on_hosts(groups: dict[str, dict[str, Any]]) -> None:
    """Settings of cluster.yaml for failure detection; KubeRay sets the token's mode."""
    hosts = yaml.safe_load((ROOT / "cluster.yaml").read_text())
    (worker,) = (command for command in hosts["worker_start_ray_commands"] if "ray start" in command)
    expected = dict(re.findall(r"\b(RAY_\w+)=(\d+)", worker))
    for pod in groups.values():
        found = {each["name"]: each.get("value") for each in container(pod)["env"]}
        assert {name: found.get(name) for name in expected} == expected
