"""``python -m tests.scenarios update [NAME ...]`` writes the core's answers into the core's scenarios.

``python -m tests.scenarios differences`` lists where Muster differs from Kafka on purpose.

``python -m tests.scenarios docs`` rewrites the tables of docs/group-coordinator.md.
"""

from __future__ import annotations

import sys

from tests.scenarios.core_world import CoreWorld
from tests.scenarios.language import load
from tests.scenarios.play import play
from tests.scenarios.state_tables import PAGE, rendered
from tests.scenarios.suites import CORE, differences, paths
from tests.scenarios.values import ScenarioError


def update(names: list[str]) -> None:
    """Play and write back; what changes is for ``git diff`` to show."""
    for path in paths(CORE):
        if names and path.stem not in names:
            continue
        scenario = load(path)
        try:
            text = play(scenario, CoreWorld(scenario)).text()
        except ScenarioError as error:
            print(error)
            continue
        if text != path.read_text():
            path.write_text(text)
            print(f"changed: {path.stem}")


def main() -> None:
    match sys.argv[1:]:
        case ["update", *names]:
            update(names)
        case ["differences"]:
            for name, line, reason in differences():
                print(f"{name}: {line}\n   {reason}")
        case ["docs"]:
            PAGE.write_text(rendered(PAGE.read_text()))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
