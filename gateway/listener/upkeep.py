"""The account of a gateway as its configuration defines it, its upkeep once a second, and what its log reports."""

from __future__ import annotations

import logging
from typing import Any

from muster.actors.config import MusterConfig
from muster.actors.tables.spool import Sample
from muster.actors.wire.kafka.steps import Steps
from muster.gateway.attribution.account import Account, SampleSink

log = logging.getLogger(__name__)

_LINES = 20
"""The most log lines of one kind at a time."""


def account_of(config: MusterConfig, sink: SampleSink[Sample]) -> Account[Sample]:
    """Return the account that writes its samples to that sink."""
    return Account(
        sink,
        Sample,
        pending_ms=config.attribution_pending_ms,
        max_group_series=config.metrics_max_group_series,
        series_retention_ms=config.metrics_group_series_retention_ms,
    )


class Upkeep:
    """Settles one account, and reports what an operator can change."""

    def __init__(self, account: Account[Any]) -> None:
        self._account = account
        self._overflow_reported = False

    def settle(self, now_ms: int) -> Steps[None]:
        """Settle what has waited long enough. Call it about once a second; only one may be under way."""
        yield from self._account.settle_in_steps(now_ms)
        self._report_ambiguous(now_ms)
        self._report_overflow()

    def _report_ambiguous(self, now_ms: int) -> None:
        news = self._account.ambiguous.news(now_ms)
        for ambiguity in news[:_LINES]:
            host, client_id = ambiguity.key
            log.warning(
                "client.id %r is not unique on host %s: it is used by the groups %s; "
                "give each client an id of its own to have its bytes attributed for certain",
                client_id,
                host,
                ", ".join(map(repr, ambiguity.groups[:_LINES])),
            )
        if len(news) > _LINES:
            log.warning("and %d more client ids that are not unique on their hosts", len(news) - _LINES)

    def _report_overflow(self) -> None:
        if self._overflow_reported or not self._account.folded:
            return
        self._overflow_reported = True
        log.warning(
            "there are more series of groups than metrics.max.group.series allows; bytes of those that came last are "
            "counted with the reason overflow"
        )
