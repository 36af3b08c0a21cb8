import random
from collections.abc import Iterable

import pytest

from muster.actors.wire.kafka.framing import Buffer, Framer, FrameTooLarge, framed, write_framed

WIRE = framed(b"one") + framed(b"") + framed(b"three", b"four")
FRAMES = [b"one", b"", b"threefour"]


@pytest.mark.parametrize("cut", range(len(WIRE) + 1))
def test_any_split_gives_the_same_frames(cut: int) -> None:
    framer = Framer(100)
    assert framer.feed(WIRE[:cut]) + framer.feed(WIRE[cut:]) == FRAMES
    assert framer.pending_bytes == 0


def test_byte_by_byte() -> None:
    framer = Framer(100)
    assert [frame for byte in WIRE for frame in framer.feed(bytes([byte]))] == FRAMES


def test_many_frames_do_not_grow_the_buffer() -> None:
    framer = Framer(1 << 20)
    for _ in range(100):
        assert len(framer.feed(framed(b"x" * 5000) * 20 + b"\0\0")) >= 19
        framer.feed(b"\0\0")
    assert framer.pending_bytes < 5004


@pytest.mark.parametrize("size", [101, 2**31 - 1, -1])
def test_a_bad_size_is_refused_before_its_bytes_come(size: int) -> None:
    with pytest.raises(FrameTooLarge) as caught:
        Framer(100).feed(size.to_bytes(4, "big", signed=True))
    assert caught.value.size == size


@pytest.mark.parametrize("cut", range(len(WIRE) + 4))
def test_frames_before_a_bad_size_are_not_lost(cut: int) -> None:
    framer, stream = Framer(100), WIRE + b"\xff" * 4
    frames = framer.feed(stream[:cut])
    with pytest.raises(FrameTooLarge) as caught:
        framer.feed(stream[cut:])
    assert frames + caught.value.frames == FRAMES


def test_what_was_in_no_frame_is_there_as_it_came() -> None:
    framer = Framer(100)
    framer.feed(WIRE + b"\0\0")
    assert framer.pending == b"\0\0"
    bad = b"\0\x01" + WIRE + b"\xff" * 4
    with pytest.raises(FrameTooLarge):
        framer.feed(b"\xff\xff" + bad)
    assert framer.pending == b"\0\0\xff\xff" + bad


@pytest.mark.parametrize("seed", range(20))
def test_any_split_of_large_and_small_frames(seed: int) -> None:
    chance = random.Random(seed)
    frames = [chance.randbytes(chance.choice((0, 3, 700, 5_000, 200_000))) for _ in range(20)]
    stream = b"".join(framed(frame) for frame in frames)
    framer, found, at = Framer(1 << 20), [], 0
    while at < len(stream):
        size = chance.choice((1, 2, 5, 100, 3_000, 70_000))
        found += framer.feed(stream[at : at + size])
        at += size
        whole = sum(len(frame) + 4 for frame in found)
        assert framer.pending_bytes == len(framer.pending) == min(at, len(stream)) - whole
    assert found == frames


def test_a_frame_that_comes_byte_by_byte_is_not_held_byte_by_byte() -> None:
    framer = Framer(1 << 20)
    for byte in framed(b"x" * 300_000)[:-1]:
        framer.feed(bytes([byte]))
    assert framer.pending_bytes == 300_003
    assert len(framer._pieces) < 10
    assert framer.feed(b"x") == [b"x" * 300_000]


class Written:
    """A transport that keeps what is written, call by call."""

    def __init__(self) -> None:
        self.calls: list[list[Buffer]] = []

    def write(self, data: bytes, /) -> None:
        self.calls.append([data])

    def writelines(self, list_of_data: Iterable[Buffer], /) -> None:
        self.calls.append(list(list_of_data))


@pytest.mark.parametrize("seed", range(20))
def test_frames_are_written_with_one_call_and_large_parts_are_not_copied(seed: int) -> None:
    chance = random.Random(seed)
    sizes = (0, 3, 700, (16 << 10) - 1, 16 << 10, 200_000)
    frames = [[chance.randbytes(chance.choice(sizes)) for _ in range(chance.randrange(3))] for _ in range(5)]
    written, pieces = Written(), list[Buffer]()
    for parts in frames:
        pieces += [sum(map(len, parts)).to_bytes(4, "big"), *parts]
    write_framed(written, pieces)
    [found] = written.calls
    assert b"".join(found) == b"".join(framed(*parts) for parts in frames)
    large = [part for parts in frames for part in parts if len(part) >= 16 << 10]
    assert all(any(part is piece for piece in found) for part in large)
    assert len(found) <= 2 * len(large) + 1
