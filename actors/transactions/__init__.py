"""The transaction coordinator of a ``__transaction_state`` partition, pure."""
