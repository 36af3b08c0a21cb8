"""Clients: none hangs, and none gets a response that ends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from tests.chaos.history import Call, History, Life, Span
from tests.chaos.journal import SEND_OFFSETS

BOUND_S = 30.0
"""How much longer than its timeout a call may take: the machine is busy, and so are a library's own threads."""


def nothing_hangs(history: History) -> Iterator[str]:
    """Require an event of each worker at least every BOUND_S, or within the timeout of its call plus BOUND_S.

    Time in which the worker itself was paused, or the whole cluster was down, does not count.
    """
    for life in history.lives.values():
        excused = [*life.paused, *history.down]
        times = [life.start_s, *life.written_s, life.end_s]
        calls = sorted(life.calls, key=lambda call: call.begin_s)
        for since_s, until_s in pairwise(times):
            if until_s - since_s <= BOUND_S:
                continue
            call = _during(calls, since_s)
            allowed_s = BOUND_S + (call.timeout_s if call else 0.0)
            silent_s = until_s - since_s - _overlap((since_s, until_s), excused)
            if silent_s > allowed_s:
                doing = call.name if call else "reading or sending"
                who = f"{life.name} ({life.library})"
                yield f"{who} was silent for {silent_s:.0f} s from {since_s:.2f} s on, in {doing}"


def _during(calls: Sequence[Call], at_s: float) -> Call | None:
    return next((call for call in reversed(calls) if call.begin_s <= at_s < call.end_s), None)


def _overlap(span: Span, others: Sequence[Span]) -> float:
    """How much of the span the others cover, in seconds; they may overlap."""
    covered_s, reached_s = 0.0, span[0]
    for since_s, until_s in sorted(others):
        since_s, until_s = max(since_s, reached_s), min(until_s, span[1])
        if until_s > since_s:
            covered_s += until_s - since_s
            reached_s = until_s
    return covered_s


def nobody_gives_up(history: History) -> Iterator[str]:
    """No library meets an error that it considers fatal; a worker ends only on request.

    A worker may end itself because of librdkafka's issue 5511; :func:`lost_its_coordinator`.
    """
    for life in history.lives.values():
        if life.fatal:
            yield f"{life.name} ({life.library}) gave up: {life.fatal}"
        elif life.abandoned and not lost_its_coordinator(history, life):
            yield f"{life.name} ({life.library}) abandoned {life.abandoned.name}, which had not ended"
        elif life.exit_code and not life.abandoned:
            yield f"{life.name} ({life.library}) ended with exit code {life.exit_code}"


def lost_its_coordinator(history: History, life: Life) -> bool:
    """Whether the call that the worker abandoned is one that librdkafka never ends, whatever the brokers do.

    When a broker is missing from a Metadata response, as the others are while the first of them is back,
    send_offsets_to_transaction waits for its former coordinator for good (issue 5511 of librdkafka, open in 2.16), and
    so does a call that begins shortly afterwards.
    """
    call = life.abandoned
    return (
        call is not None
        and (call.name, life.library) == (SEND_OFFSETS, "confluent")
        and any(since_s <= call.end_s and call.begin_s <= until_s + BOUND_S for since_s, until_s in history.down)
    )
