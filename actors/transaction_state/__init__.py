"""A transactions actor: one partition of ``__transaction_state``, around :mod:`muster.actors.transactions`."""
