"""Sets of offsets as spans [first, end): sorted, disjoint, not empty, not touching each other."""

from __future__ import annotations

from bisect import bisect_right

Span = tuple[int, int]
Spans = tuple[Span, ...]


def of(first: int, end: int) -> Spans:
    """Return the span [first, end); no span if it is empty."""
    return ((first, end),) if first < end else ()


def union(left: Spans, right: Spans) -> Spans:
    """Offsets that are in either."""
    if not left or not right:
        return left or right
    found: list[Span] = []
    for first, end in sorted((*left, *right)):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((first, end))
    return tuple(found)


def minus(left: Spans, right: Spans) -> Spans:
    """Offsets of ``left`` that are not in ``right``."""
    found: list[Span] = []
    for first, end in left:
        for other_first, other_end in right[_at(right, first) :]:
            if other_first >= end:
                break
            if first < other_first:
                found.append((first, other_first))
            first = max(first, other_end)
        if first < end:
            found.append((first, end))
    return tuple(found)


def common(left: Spans, right: Spans) -> Spans:
    """Offsets that are in both."""
    return minus(left, minus(left, right)) if left and right else ()


def below(spans: Spans, offset: int) -> Spans:
    """Offsets below ``offset``."""
    return common(spans, of(min((spans[0][0], offset)), offset)) if spans else ()


def run_around(spans: Spans, offset: int) -> Span | None:
    """Return the span that contains the offset."""
    for first, end in spans[_at(spans, offset) :][:1]:
        if first <= offset < end:
            return first, end
    return None


def _at(spans: Spans, offset: int) -> int:
    """Index of the last span that begins at or before the offset, else 0."""
    return max(bisect_right(spans, offset, key=lambda span: span[0]) - 1, 0)
