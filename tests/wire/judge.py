"""Compares what the reader makes of bytes with what kio does, behind :mod:`tests.wire.bounds`."""

from __future__ import annotations

import dataclasses
import datetime
from enum import Enum
from typing import Any

from kio.serial import entity_reader
from kio.serial.errors import SerialError

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.lengths import MAX_ELEMENTS, UNREADABLE
from muster.actors.wire.kafka.reader import reader, step_reader
from muster.actors.wire.kafka.schema import entity_of
from muster.actors.wire.kafka.steps import finish
from tests.wire.bounds import OddNull, check_lengths, with_durations_cut, without_unknown_tags

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MS = datetime.timedelta(milliseconds=1)
_MAX_DURATION_MS = (1 << 63) // 1000
"""kio counts durations in microseconds."""
KIO_REFUSES = (SerialError, ValueError, OverflowError, KeyError)
"""Errors of kio; KeyError for an unknown tagged field."""


class Verdict(Enum):
    """Results of both readings together."""

    SAME = "read, and the same"
    REFUSED = "refused"
    BOOLEAN = "a boolean that is neither 0 nor 1: true to the reader, as to Kafka (readByte() != 0); refused by kio"
    NULL = "an int8 below -1 for an entity: null to the reader, as to Kafka (readByte() < 0); kio reads on"
    NO_HEADER = "not looked at: the header cannot be read, or is of no API and version"
    TIME = "a time before 1970 or behind 9999: read as it is; refused by kio"


class Difference(AssertionError):
    """One has read what the other has not, or not in the same way."""


def judged(kind: Any, frame: bytes, at: int = 0) -> Verdict:
    """Read the entity of that class at that index by both. Raises Difference."""
    ours, ours_refused = _attempt(lambda: reader(kind)(frame, at, MAX_ELEMENTS)[0], UNREADABLE)
    stepped, _ = _attempt(lambda: finish(step_reader(kind)(frame, at, MAX_ELEMENTS))[0], UNREADABLE)
    if stepped != ours and repr(stepped) != repr(ours):  # NaN is not equal to itself
        raise Difference(f"{_named(kind)}: in steps {stepped!r}, at once {ours!r}: {frame.hex()}")
    kios, kio_refused = _attempt(lambda: _by_kio(kind, frame, at), KIO_REFUSES)
    if kio_refused is None and ours_refused is None:
        if not same(kind, ours, kios):
            raise Difference(f"{_named(kind)}: {ours!r} is read, {kios!r} by kio: {frame.hex()}")
        return Verdict.SAME
    if kio_refused is not None and ours_refused is not None:
        return Verdict.REFUSED
    if isinstance(kio_refused, OddNull):
        return Verdict.NULL
    if "Invalid boolean value" in str(kio_refused):
        return Verdict.BOOLEAN
    if "negative timestamp" in str(kio_refused) or "is out of range" in str(kio_refused):
        return Verdict.TIME
    raise Difference(f"{_named(kind)}: {ours_refused or ours!r}, by kio {kio_refused or kios!r}: {frame.hex()}")


def judged_request(frame: bytes) -> Verdict:
    """:func:`judged` of a client's frame. Raises Difference."""
    try:
        header = codec.decode_header(frame)
        kind = codec.request_type(header.api_key, header.api_version)
    except (codec.UnknownApi, codec.UndecodableRequest):
        return Verdict.NO_HEADER
    return judged(kind, frame, header.end)


def _attempt(read: Any, refused: Any) -> tuple[Any, Exception | None]:
    try:
        return read(), None
    except refused as error:
        return None, error


def _by_kio(kind: Any, frame: bytes, at: int) -> Any:
    check_lengths(kind, frame, at, MAX_ELEMENTS)
    try:
        return entity_reader(kind)(frame, at)[0]
    except KeyError:
        return entity_reader(kind)(without_unknown_tags(kind, frame, at), at)[0]
    except ValueError:
        return entity_reader(kind)(with_durations_cut(kind, frame, at), at)[0]


def same(kind: Any, ours: Any, kios: Any) -> bool:
    """Whether what was read of an entity is what kio has read, field by field."""
    entity = entity_of(kind)
    if tuple(each.name for each in dataclasses.fields(ours)) != entity.names:
        return False
    for field in (*entity.fields, *entity.tagged):
        mine, its = getattr(ours, field.name), getattr(kios, field.name)
        if mine is None or its is None:
            is_same = mine is its
        elif field.is_array:
            values = (
                same(field.nested, *pair) if field.nested is not None else _plain(*pair)
                for pair in zip(mine, its, strict=False)
            )
            is_same = type(mine) is tuple and len(mine) == len(its) and all(values)
        else:
            is_same = same(field.nested, mine, its) if field.nested is not None else _plain(mine, its)
        if not is_same:
            return False
    return True


def _plain(mine: Any, its: Any) -> bool:
    if isinstance(its, datetime.timedelta):
        return bool(max(-_MAX_DURATION_MS, min(mine, _MAX_DURATION_MS)) == its // _MS)
    if isinstance(its, datetime.datetime):
        return bool(mine == round((its - _EPOCH) / _MS))  # kio counts in doubles
    return type(mine) is type(its) and (mine == its or repr(mine) == repr(its))


def _named(kind: Any) -> str:
    return f"{kind.__name__} v{kind.__version__}"
