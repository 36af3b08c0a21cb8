"""The two ends of a load. It begins when every group has committed. It ends when producers have their responses,
transformers have transformed everything, all groups have committed the ends of all logs, and members have left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from confluent_kafka import KafkaException

from tests.chaos.fleet import Fleet
from tests.chaos.journal import Journal
from tests.chaos.observer import Observer

DRAIN_S = 90.0
"""Limit of each of these, unless another is given."""
_BEGIN_S = 60.0
"""A slow machine starts ten clients in 20 s; a group whose topics match no pattern yet never commits."""


def await_load(fleet: Fleet, observer: Observer, groups: Iterable[str]) -> bool:
    """Wait until each group has committed an offset; return whether all did in time.

    Faults that meet a group before that find out nothing about its commits.
    """
    left, deadline_s = set(groups), time.monotonic() + _BEGIN_S
    while left and time.monotonic() < deadline_s:
        fleet.look()
        left = {group for group in left if not observer.has_committed(group)}
        time.sleep(0.2)
    return not left


def drain(
    fleet: Fleet,
    observer: Observer,
    groups: Iterable[str],
    journal: Journal,
    say: Callable[[str], None],
    limit_s: float = DRAIN_S,
) -> None:
    """Drain the fleet. Whatever is not in time is said, and left to the checker."""

    def wait(done: Callable[[], bool], otherwise: str) -> None:
        deadline_s = time.monotonic() + limit_s
        while not done():
            if time.monotonic() > deadline_s:
                say(otherwise)
                return
            time.sleep(0.2)

    ends: dict[tuple[str, int], int] = {}

    def drained(some: Iterable[str]) -> bool:
        fleet.look()
        if not ends:
            try:
                ends.update(observer.ends())
            except KafkaException:
                return False
        return all(observer.has_everything(group, ends) for group in some)

    for name in fleet.names("producer"):
        fleet.leave(name)
    wait(fleet.gone, "producers still wait for answers")
    if transformers := fleet.names("transformer"):
        wait(lambda: drained(fleet.groups("transformer")), "transformers have not transformed everything")
        for name in transformers:
            fleet.leave(name)
        wait(fleet.gone, "transformers do not end")
        ends.update(observer.visible_ends(fleet.outputs(), limit_s))
    wait(lambda: drained(groups), "groups have not committed everything")
    journal.write("drained", groups={group: observer.has_everything(group, ends) for group in groups})
    for name in fleet.names("consumer"):
        fleet.leave(name)
    wait(fleet.gone, "consumers do not end")
