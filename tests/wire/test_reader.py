"""The reader compared with kio's own: every class of entity that the codec knows, and what is not one."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice
from uuid import UUID

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from kio.static.constants import EntityType

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.reader import reader
from tests.fuzz import corpus
from tests.fuzz.frames import Generator
from tests.fuzz.values import Extremes, Values
from tests.wire.judge import Verdict, judged, judged_request, same
from tests.wire.test_writing import KINDS, anything, by_kio

MESSAGES = [kind for kind in KINDS if kind.__type__ is not EntityType.header]
IDS = [UUID(int=1 << 100)]


@given(st.integers())
@settings(max_examples=3, phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_every_class_as_kio_has_written_it(seed: int) -> None:
    draw = random.Random(seed)
    for kind in MESSAGES:
        _, entity = anything(kind, draw)
        assert judged(kind, by_kio(kind, entity)) is Verdict.SAME


@given(st.integers(), st.data())
@settings(max_examples=300)
def test_spoiled_bytes_of_any_class(seed: int, data: st.DataObject) -> None:
    draw = random.Random(seed)
    kind = draw.choice(MESSAGES)
    frame = by_kio(kind, anything(kind, draw).entity)
    if not frame:
        return
    at = data.draw(st.integers(0, len(frame) - 1))
    changes = data.draw(st.binary(min_size=1, max_size=6))
    for spoiled in (
        frame[:at],
        frame[:at] + changes + frame[at + len(changes) :],
        frame[:at] + changes + frame[at:],
        frame[:at] + frame[at + len(changes) :],
        frame + changes,
    ):
        judged(kind, spoiled)


@pytest.mark.parametrize("values", [Values, Extremes])
def test_frames_of_the_fuzzer(values: type[Values]) -> None:
    verdicts = Counter(map(judged_request, (each.data for each in islice(Generator(23, values(IDS)), 5_000))))
    assert verdicts[Verdict.SAME] > 1_000
    assert verdicts[Verdict.REFUSED] > 300


@pytest.mark.parametrize("case", corpus.cases(), ids=lambda case: case.name)
def test_frames_that_did_harm(case: corpus.Case) -> None:
    for frame in filter(None, case.frames):
        judged_request(frame)


def test_same_is_no_difference_in_any_field() -> None:
    kind = codec.request_type(12, 4)
    heartbeat = kind(group_id="g", generation_id=1, member_id="m", group_instance_id=None)
    frame = by_kio(kind, heartbeat)
    assert judged(kind, frame) is Verdict.SAME
    read = reader(kind)(frame, 0, 10)[0]
    for name, value in {"group_id": "h", "generation_id": 2, "group_instance_id": ""}.items():
        other = kind(**{**{each: getattr(heartbeat, each) for each in read.__dataclass_fields__}, name: value})
        assert not same(kind, read, other)
