"""The configuration of a transaction coordinator: Kafka's broker properties, with underscores for dots."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """Kafka's properties for transactions, with Kafka's defaults."""

    transactional_id_expiration_ms: int = 604_800_000
    """How long a transactional id that is not used is kept."""
    transaction_max_timeout_ms: int = 900_000
    """Longest timeout that a producer may request (inclusive)."""
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    """Time between two checks for transactions that have timed out."""
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    """Time between two checks for transactional ids that have expired."""
    offsets_topic_num_partitions: int = 50
    """Partitions of ``__consumer_offsets``: AddOffsetsToTxn adds the one of its group."""
    transaction_version: int = 2
    """Kafka's feature of that name: 0 writes records v0; with 2, an abort by the coordinator follows KIP-890."""
    transaction_end_wait_ms: int = 50
    """Muster's own: how long the response to an EndTxn waits for the markers. A consumer then sees the end of the
    transaction, and the next one can begin, when the producer has the response. 0: it does not wait."""
    transaction_marker_retry_backoff_ms: int = 100
    """Muster's own: the wait before a marker that could not be written is sent again."""
