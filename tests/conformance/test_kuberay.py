"""deploy/kuberay.yaml against the schema of KubeRay's custom resource definition, which knows all of a pod, too."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.conformance.artifacts import kuberay
from tests.house.test_kuberay_yaml import ROOT


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    """Stricter than the definition: Kubernetes drops fields that it does not know, which are mistakes here."""
    definition = yaml.load((kuberay() / "ray.io_rayclusters.yaml").read_text(), yaml.CSafeLoader)
    (schema,) = (
        version["schema"]["openAPIV3Schema"] for version in definition["spec"]["versions"] if version["name"] == "v1"
    )
    return Draft202012Validator(closed(schema, at_top=True))


def closed(schema: Any, *, at_top: bool = False) -> Any:
    """Return the schema, admitting no other properties than those it names."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        key: {name: closed(each) for name, each in value.items()} if key == "properties" else closed(value)
        for key, value in schema.items()
    }
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if "properties" in schema and not is_open:
        found["additionalProperties"] = False
        if at_top:
            found["properties"]["metadata"] = {"type": "object"}  # whose content every resource has
    return found


@pytest.fixture
def cluster() -> dict[str, Any]:
    documents = yaml.safe_load_all((ROOT / "deploy/kuberay.yaml").read_text())
    (found,) = (document for document in documents if document["kind"] == "RayCluster")
    return copy.deepcopy(found)


def problems(validator: Draft202012Validator, cluster: dict[str, Any]) -> list[str]:
    return [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(cluster)]


def test_kuberay_finds_it_valid(validator: Draft202012Validator, cluster: dict[str, Any]) -> None:
    assert problems(validator, cluster) == []


def test_mistakes_are_found(validator: Draft202012Validator, cluster: dict[str, Any]) -> None:
    group = cluster["spec"]["workerGroupSpecs"][0]
    group["replica"] = group.pop("replicas")
    (container,) = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
    container["volumeMounts"][0]["path"] = container["volumeMounts"][0].pop("mountPath")
    container["livenessProbe"]["periodSeconds"] = "10"
    cluster["spec"]["authOptions"]["mode"] = "password"
    found = " ".join(problems(validator, cluster))
    for wrong in (
        "'replica' was unexpected",
        "'path' was unexpected",
        "'mountPath' is a required",
        "'10' is not of type",
    ):
        assert wrong in found, found
    assert "'password' is not one of" in found
