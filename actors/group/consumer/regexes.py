"""Regular expressions of subscriptions. Their syntax is RE2's, of which Kafka uses the Java implementation, RE2/J."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import re2

_CAUSES = (
    ("invalid perl operator: (?<", "invalid named capture"),
    ("missing )", "missing closing )"),
    ("missing ]", "missing closing ]"),
    ("no argument for repetition operator", "missing argument to repetition operator"),
    ("bad repetition operator", "invalid nested repetition operator"),
    ("invalid repetition size", "invalid repeat count"),
    ("invalid perl operator", "invalid or unsupported Perl syntax"),
    ("invalid named capture group", "invalid named capture"),
    ("trailing \\", "trailing backslash at end of expression"),
    ("unexpected )", "regexp/syntax: internal error"),
    ("invalid character class range", "invalid character class range"),
    ("invalid escape sequence", "invalid escape sequence"),
)
"""What RE2 says, and what RE2/J says of the same error."""

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


def why_invalid(regex: str) -> str | None:
    """What is wrong with it, in the words of Kafka's error message; None if it is valid."""
    try:
        _compiled(regex)
    except re2.error as error:
        text = error.args[0].decode(errors="replace")
        return next((cause for start, cause in _CAUSES if start in text), text)
    return None


def matching(regex: str, topics: Iterable[str]) -> tuple[str, ...]:
    """Those of the topics whose whole name matches, sorted. None match an expression that is not valid."""
    try:
        pattern = _compiled(regex)
    except re2.error:
        return ()
    return tuple(sorted(topic for topic in topics if pattern.fullmatch(topic)))


@lru_cache(maxsize=256)
def _compiled(regex: str) -> re2._Regexp:
    return re2.compile(regex, _OPTIONS)
