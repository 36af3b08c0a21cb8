"""Plans: their files, their errors, and round trips."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.actors.faults import InvalidFault, Plan
from muster.actors.faults.fields import Probability

TEXT = """
name: a coordinator that comes and goes
seed: 17
steps:
  - {at: 1.5m, clear: all}
  - {at: 2s, name: lost, action: no-answer, api: OffsetCommit, phase: after, when: {probability: 0.3}}
  - {at: 500ms, action: kill, group: orders}
  - {at: 2, action: close, when: {probability: 0.3}, expires_ms: 1000}
  - {at: 20s, clear: lost}
"""


def test_a_plan_in_the_order_of_its_times(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(TEXT)
    plan = Plan.read(tmp_path / "plan.yaml")
    assert (plan.name, plan.seed) == ("a coordinator that comes and goes", 17)
    assert [(step.at_ms, step.number) for step in plan.steps] == [
        (500, 3),
        (2_000, 2),
        (2_000, 4),
        (20_000, 5),
        (90_000, 1),
    ]
    assert str(plan.steps[0]) == "kill group=orders"
    assert [step.clear for step in plan.steps] == [None, None, None, "lost", "all"]


def test_seeds_come_from_the_plans_and_differ_by_step() -> None:
    first, second = Plan.from_text(TEXT), Plan.from_text(TEXT)
    assert first == second
    seeds = [when.seed for step in first.steps if isinstance(when := getattr(step.fault, "when", None), Probability)]
    assert len(set(seeds)) == 2
    other = Plan.from_text(TEXT.replace("seed: 17", "seed: 18"))
    assert first.steps[1].fault != other.steps[1].fault


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("steps: [", ["this is no YAML"]),
        ("- at: 2s", ["a plan has a name, a seed and steps"]),
        ("name: x", ["steps has to be a list with at least one step"]),
        ("steps: []", ["steps has to be a list with at least one step"]),
        ("stepps: []", ["stepps is no part of a plan (did you mean steps?)", "steps has to be a list"]),
        ("seed: x\nsteps: [{at: 1s, clear: all}]", ["seed has to be a whole number"]),
        ("steps: [{action: drop}]", ["step 1: at has to be the time from the start of the plan"]),
        ("steps: [{at: soon, action: drop}]", ["step 1: at has to be the time from the start of the plan"]),
        ("steps: [{at: -1, action: drop}]", ["step 1: at has to be the time from the start of the plan"]),
        ("steps: [drop]", ["step 1: a step has at, and the fields of a fault or clear"]),
        (
            "steps: [{at: 1s, acton: drop}, {at: 1s, action: delay}]",
            ["step 1: acton is no field of a step (did you mean action?)", "step 2: delay needs delay_ms"],
        ),
        (
            "steps: [{at: 1s, clear: losst}, {at: 0, name: lost, action: drop}]",
            ["step 1: clear: no step is named 'losst' (did you mean lost?)"],
        ),
        ("steps: [{at: 1s, clear: all, action: drop}]", ["step 1: clear stands alone, without action"]),
        ("steps: [{at: 1s, name: all, action: drop}]", ["step 1: name has to be a text that is neither empty nor all"]),
        (
            "steps: [{at: 1s, name: a, action: drop}, {at: 1s, name: a, action: drop}]",
            ["step 2: step 1 has the name a already"],
        ),
    ],
)
def test_everything_that_is_wrong_is_said_before_the_first_step(text: str, problems: list[str]) -> None:
    with pytest.raises(InvalidFault) as refused:
        Plan.from_text(text)
    assert len(refused.value.problems) == len(problems)
    for problem, expected in zip(refused.value.problems, problems, strict=True):
        assert expected in problem


def test_a_step_is_printed_as_it_is_listed() -> None:
    steps = [{"at": "1s", "action": "drop", "api": "Fetch", "when": {"probability": 0.5, "seed": 7}}]
    (step,) = Plan.from_json({"steps": steps}).steps
    assert str(step) == 'drop api=Fetch when={"probability": 0.5, "seed": 7}'
