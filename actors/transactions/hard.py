"""Hard state: the content of the log.

While loading, :meth:`HardState.replay` reads it from records. While serving, each value is stored when its record is
written; tests check that reading the record back gives the same state.
"""

from __future__ import annotations

from muster.actors.group.types import Record
from muster.actors.transactions.codec.records import decode_key, decode_value
from muster.actors.transactions.state import Entry, TransactionMetadata, TransactionState
from muster.actors.transactions.types import TransactionalId


class HardState:
    """The last value of every transactional id in the partition's log."""

    def __init__(self) -> None:
        self.entries: dict[TransactionalId, Entry] = {}
        self.ongoing: dict[TransactionalId, None] = {}
        """Ids with an Ongoing transaction, in order of its beginning."""

    def __eq__(self, other: object) -> bool:
        return self._content() == other._content() if isinstance(other, HardState) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def _content(self) -> dict[TransactionalId, TransactionMetadata]:
        return {transactional_id: entry.metadata for transactional_id, entry in self.entries.items()}

    def replay(self, record: Record) -> TransactionalId | None:
        """Apply a record, and return its id; None if its key's version is not known. Raises CorruptRecord."""
        transactional_id = decode_key(record.key)
        if transactional_id is not None:
            self.put(transactional_id, None if record.value is None else Entry(decode_value(record.value)))
        return transactional_id

    def put(self, transactional_id: TransactionalId, entry: Entry | None) -> Entry | None:
        """Apply a value. Returns the previous one."""
        prior = self.entries.get(transactional_id)
        if entry is None:
            self.entries.pop(transactional_id, None)
        else:
            self.entries[transactional_id] = entry
        if entry is not None and entry.metadata.state is TransactionState.ONGOING:
            self.ongoing[transactional_id] = None
        else:
            self.ongoing.pop(transactional_id, None)
        return prior
