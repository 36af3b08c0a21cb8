"""The counts that are committed, and what has grown since."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.path.counting import Counts, Function

COUNTS = Path(__file__).with_name("counts.csv")
COMMAND = "python -m benchmarks path --write"
GROWN = 1.1
"""A path with this many times as many calls or files as before has grown."""
_REQUESTS, _C_CALLS = Function("", "requests"), Function("", "C calls")
_SHOWN = 20


def written(counts: Mapping[str, Counts], file: Path = COUNTS) -> None:
    """Write a row for each function, with its calls in a column for each request; libraries have one row each."""
    cells = {name: _cells(each) for name, each in counts.items()}
    rows = sorted({function for each in cells.values() for function in each})
    with file.open("w", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(["file", "function", *counts])
        for function in rows:
            writer.writerow([*function, *(cells[name].get(function, "") for name in counts)])


def _cells(counts: Counts) -> dict[Function, int]:
    found = {_REQUESTS: counts.requests, _C_CALLS: counts.c_calls}
    for function, calls in counts.calls.items():
        row = function if function.is_product else Function(function.library, "")
        found[row] = found.get(row, 0) + calls
    return found


def read(file: Path = COUNTS) -> dict[str, Counts]:
    """Return the committed counts."""
    with file.open(newline="") as lines:
        _, _, *names = header = next(reader := csv.reader(lines))
        found: dict[str, dict[Function, int]] = {name: {} for name in names}
        for row in reader:
            for name, cell in zip(header[2:], row[2:], strict=True):
                if cell:
                    found[name][Function(row[0], row[1])] = int(cell)
    return {name: Counts(cells.pop(_REQUESTS), cells, cells.pop(_C_CALLS)) for name, cells in found.items()}


def growth(before: Mapping[str, Counts], now: Mapping[str, Counts]) -> Iterator[str]:
    """Yield a text for each request whose path has grown, with the functions that are new on it."""
    for name, counts in now.items():
        if name not in before:
            yield f"{name} is not in {COUNTS.name}: {COMMAND}"
            continue
        grown = list(_grown(before[name], counts))
        if grown:
            yield "\n".join([f"{name}: {', '.join(grown)}", *_news(before[name], counts), f"If so be it: {COMMAND}"])


def _grown(before: Counts, now: Counts) -> Iterator[str]:
    figures = (
        ("files", len(before.files), len(now.files)),
        ("calls", before.python_calls / before.requests, now.python_calls / now.requests),
        ("C calls", before.c_calls / before.requests, now.c_calls / now.requests),
    )
    for what, was, is_now in figures:
        if is_now > GROWN * was:
            yield f"{is_now:,.0f} {what} instead of {was:,.0f}"


def _news(before: Counts, now: Counts) -> Iterator[str]:
    """Yield the functions of the product that are new, or else those that are called more often."""
    new = [each for each in now.functions if each not in before.calls]
    for function in new[:_SHOWN]:
        yield f"  new: {function.name} ({function.file})"
    more = [each for each in now.functions if 0 < before.calls.get(each, 0) < now.calls[each]]
    for function in sorted(more, key=lambda each: before.calls[each] - now.calls[each])[:_SHOWN]:
        yield f"  {before.calls[function]} -> {now.calls[function]} calls: {function.name} ({function.file})"
