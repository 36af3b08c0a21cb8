"""The Ray actor ``transactions-<p>``: one partition of ``__transaction_state`` and the producers that hash to it."""

from __future__ import annotations

from muster.actors.serving.actor import CoordinatorActor
from muster.actors.transaction_state.serving import TransactionsOpener
from muster.placement.view import TRANSACTIONS, TRANSACTIONS_TOPIC


class TransactionsActor(CoordinatorActor):
    """See the module."""

    kind = TRANSACTIONS
    topic = TRANSACTIONS_TOPIC

    def _opener(self) -> TransactionsOpener:
        return TransactionsOpener(self.settings, self.secret)
