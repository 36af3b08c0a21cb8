"""Output of ``muster attribution-audit`` for a report."""

from __future__ import annotations

from typing import Any

from muster.actors.audit.report import Cause, Row
from muster.gateway.cli.attribution_audit import cells, in_words, summary


def row(drift: dict[Cause, int], *, implied: int = 1_000, attributed: int = 1_000, removed: int = 0) -> dict[str, Any]:
    return Row("g", "t", 0, implied, attributed, drift, removed).to_json()


def response(*rows: dict[str, Any], interval_ms: int = 30_000, at_ms: int | None = 5_000) -> dict[str, Any]:
    return {"interval_ms": interval_ms, "at_ms": at_ms, "rows": rows}


def test_causes_stand_with_their_signs() -> None:
    drift = {Cause.PREFETCH: 70, Cause.MISLABELLED: 9, Cause.RESET: 100, Cause.LOST: 20, Cause.RETENTION: -5}
    shown = cells(row(drift, attributed=954, removed=1))
    assert shown == (
        *("g", "t", 0, 1_000, 954, -46, 29),
        "prefetch +70, mislabelled +9, reset -100, lost -20, retention -5, 1 offset gone from the log",
    )


def test_without_drift_there_is_nothing_to_explain() -> None:
    assert cells(row({}))[-3:] == (0, 0, None)
    assert in_words([row({})]) == ""


def test_an_explained_difference_is_said_in_words() -> None:
    explained = row({Cause.PREFETCH: 52_466}, attributed=53_466)
    assert cells(explained)[-3:] == (52_466, 0, "prefetch +52466")
    lost = row({Cause.LOST: 1})
    assert in_words([lost, explained]) == "prefetch: sent, not committed yet; lost: attributed to no group"
    assert in_words([row({cause: 1}) for cause in Cause]).count(";") == len(Cause) - 1


def test_what_is_said_of_all() -> None:
    rows = [row({Cause.LOST: 20}), row({Cause.MISLABELLED: 1, Cause.RESET: 9}), row({})]
    rows.append(row({Cause.MISLABELLED_ELSEWHERE: 2}))
    assert summary(response(*rows), 8_000) == "23 bytes unexplained, 3 s ago"
    assert summary(response(), 8_000).startswith("nothing audited: no group has committed since the audit began")
    assert summary(response(at_ms=None), 0) == "no round yet; rounds run every 30 s"
    assert summary(response(interval_ms=0, at_ms=None), 0) == "the attribution audit is off (audit.interval.ms=0)"
