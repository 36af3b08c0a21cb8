from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.actors.log.errors import StorageError
from muster.actors.log.wal.objects import FENCE_BYTES, Entry, Kind, WalObject, name_of, number_in

WRITER = bytes(range(16))
ENTRIES = st.lists(
    st.builds(
        Entry,
        st.uuids(),
        st.integers(0, 2**31 - 1),
        st.integers(0, 2**31 - 1),
        st.one_of(st.none(), st.integers(0, 2**62)),
        st.binary(max_size=100),
    ),
    max_size=5,
)


@given(kind=st.sampled_from(Kind), epoch=st.integers(0, 2**62), number=st.integers(0, 2**63), entries=ENTRIES)
def test_round_trip(kind: Kind, epoch: int, number: int, entries: list[Entry]) -> None:
    written = WalObject(kind=kind, epoch=epoch, writer=WRITER, number=number, entries=entries)
    content = written.encode()
    assert WalObject.decode("name", content) == written
    assert len(content) == FENCE_BYTES + sum(entry.size_bytes for entry in entries)


def test_any_damage_is_noticed() -> None:
    entry = Entry(UUID(int=1), 0, 5, 1_700_000_000_000, b"some records")
    content = WalObject(kind=Kind.DATA, epoch=3, writer=WRITER, number=7, entries=[entry]).encode()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 0x10
        with pytest.raises(StorageError, match=r"^wal/log-0/1 is (damaged|no object)"):
            WalObject.decode("wal/log-0/1", bytes(damaged))
    for length in range(len(content)):
        with pytest.raises(StorageError):
            WalObject.decode("wal/log-0/1", content[:length])


def test_names_are_in_the_order_of_numbers() -> None:
    names = [name_of("log-0", number) for number in (0, 9, 10, 999, 10**19)]
    assert names == sorted(names)
    assert [number_in(name) for name in names] == [0, 9, 10, 999, 10**19]


@pytest.mark.parametrize("name", ["wal/log-0/1", "wal/log-0/", f"wal/log-0/{'x' * 20}", f"wal/log-0/{'²' * 20}"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(StorageError, match="does not belong into a write-ahead log"):
        number_in(name)
