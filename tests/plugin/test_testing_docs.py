"""docs/testing-consumers.md shows the examples unchanged, and configurations that pytest takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from muster.actors.faults import Fault

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(
    path
    for path in (ROOT / "examples").glob("*.py")
    if "pytest" in path.read_text() or path.name.startswith("committing_")
)
"""The examples of testing; tests/ray/test_examples.py has the others, which docs/ray.md shows."""
PAGE = (ROOT / "docs" / "testing-consumers.md").read_text()

pytest_plugins = ["pytester"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_shown_whole(example: Path) -> None:
    assert f"`examples/{example.name}`:\n\n```python\n{example.read_text()}```" in PAGE


@pytest.mark.parametrize(("language", "file"), [("toml", "pyproject.toml"), ("ini", "pytest.ini")])
def test_a_configuration_that_is_shown_is_taken(pytester: pytest.Pytester, language: str, file: str) -> None:
    (block,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    pytester.path.joinpath(file).write_text(block)
    pytester.makepyfile(
        """
        def test_it(pytestconfig, muster_properties):
            assert muster_properties == {"num.partitions": "6", "message.max.bytes": "2000000"}
            assert pytestconfig.getini("muster_gateways") == "2"
            assert pytestconfig.getini("muster_start_timeout_s") == "180"
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_the_faults_that_are_shown_can_be_injected() -> None:
    """Faults of the last section are injected; a wrong name would raise."""
    injected: list[Fault] = []

    class Faults:
        def inject(self, action: str, **fields: Any) -> None:
            injected.append(Fault(action, **fields))

        def kill(self, *, group: str) -> None:
            self.inject("kill", group=group)

        def pause(self, actor: str, *, expires_ms: int) -> None:
            self.inject("pause", actor=actor, expires_ms=expires_ms)

    code = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[-1]
    exec(code, {"muster_faults": Faults(), "topic": "orders"})
    assert len(injected) == len(code.strip().splitlines())
