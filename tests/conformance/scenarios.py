"""``python -m tests.conformance.scenarios record [NAME ...]``: what a real Apache Kafka answers, written into the
scenarios.

``check`` changes no scenario. Both write into ``verified.csv`` what Kafka was seen to answer. One broker is started for
each set of properties that the scenarios ask for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tests.conformance.kafka import KafkaBroker
from tests.conformance.verified import verify
from tests.scenarios.core_world import BROKER
from tests.scenarios.language import Scenario, load
from tests.scenarios.suites import Played, by_broker, difference, play_all, recorded
from tests.scenarios.values import ScenarioError


def play_on_kafka(scenarios: list[Scenario]) -> Iterator[tuple[Scenario, Played]]:
    """Every scenario with what Kafka answers, a broker at a time."""
    for properties, same in by_broker(scenarios):
        with KafkaBroker({**BROKER, **properties}) as broker:
            port = int(broker.bootstrap_servers.rpartition(":")[2])
            played = play_all(same, port, as_kafka=True)
        for scenario in same:
            yield scenario, played[scenario.name]


def main() -> None:
    verb, *names = sys.argv[1:] or [""]
    if verb not in ("record", "check"):
        sys.exit(__doc__)
    files = {path.stem: path for path in recorded() if not names or path.stem in names}
    if unknown := {*names} - files.keys():
        sys.exit(f"no transcripts: {', '.join(sorted(unknown))}")
    wrong = 0
    right = []
    for scenario, played in play_on_kafka([load(path) for path in files.values()]):
        path = files[scenario.name]
        if isinstance(played, ScenarioError):
            wrong += 1
            print(f"{scenario.name} cannot be played: {played}")
        elif changed := difference(path.read_text(), played.text()):
            wrong += verb == "check"
            print(f"{scenario.name}:\n{changed}")
            if verb == "record":
                path.write_text(played.text())
                right.append(path)
        else:
            right.append(path)
    verify(right)
    print(f"{len(files)} scenarios, {wrong} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
