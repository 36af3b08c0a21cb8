"""One line of an exception's message."""

from __future__ import annotations

import pytest

from muster.actors.runtime.errors import first_line, last_line


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [("", "ValueError", "ValueError"), (" \n", "ValueError", "ValueError"), ("a", "a", "a"), ("\na\nb\nc\n", "a", "c")],
)
def test_first_and_last_line(text: str, first: str, last: str) -> None:
    assert (first_line(ValueError(text)), last_line(ValueError(text))) == (first, last)
