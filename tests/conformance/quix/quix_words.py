"""A word count with Quix Streams: ``quix_words.py BOOTSTRAP GROUP INPUT OUTPUT STATE GUARANTEE``, until SIGTERM.

STATE is the folder of its counts, GUARANTEE at-least-once or exactly-once. The output has words as keys, and their
number so far as values.
"""

from __future__ import annotations

import sys
from typing import Any

from quixstreams import Application  # type: ignore[import-not-found]  # in an environment of its own

COMMIT_S = {"at-least-once": 0.2, "exactly-once": 3.0}
"""A transaction stays open for that long: a test has to see one."""


def main(bootstrap: str, group: str, source: str, output: str, state_folder: str, guarantee: str) -> None:
    application = Application(
        bootstrap,
        consumer_group=group,
        auto_offset_reset="earliest",
        state_dir=state_folder,
        processing_guarantee=guarantee,
        commit_interval=COMMIT_S[guarantee],
        consumer_extra_config={"session.timeout.ms": 20_000},
        producer_extra_config={"transaction.timeout.ms": 20_000} if guarantee == "exactly-once" else None,
    )
    lines = application.dataframe(application.topic(source, value_deserializer="str"))
    split = lines.apply(str.split, expand=True)
    words = split.group_by(lambda word: word, name="word", key_serializer="str", key_deserializer="str")
    words.apply(count, stateful=True).to_topic(application.topic(output, key_serializer="str"))
    application.run()


def count(word: str, state: Any) -> Any:
    number = state.get("number", 0) + 1
    state.set("number", number)
    return number


if __name__ == "__main__":
    main(*sys.argv[1:])
