"""``ssl.principal.mapping.rules``: from the distinguished name of a client's certificate to its name (KIP-371).

The grammar is that of Kafka's SslPrincipalMapper, with one exception: a pattern replaces the whole name once, where
Java's ``replaceAll`` replaces an empty match behind it, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)"
_NEXT = re.compile(rf"\s*(?:{_RULE})?\s*(?:,|$)")
_JAVA_GROUP = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")
_INSERTS = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str] | None
    """None: DEFAULT."""
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        mapped = _INSERTS.sub(lambda insert: _inserted(insert, found), self.replacement)
        return mapped.lower() if self.case == "L" else mapped.upper() if self.case == "U" else mapped


def _inserted(insert: re.Match[str], found: re.Match[str]) -> str:
    """``\\x`` is x. ``$n`` is the group n, of the longest number that is one: $12 is group 1 and a 2 if there is 1."""
    if insert[1] is not None:
        return insert[1]
    digits = insert[2]
    groups = found.re.groups
    for end in range(len(digits), 0, -1):
        if int(digits[:end]) <= groups:
            return (found[int(digits[:end])] or "") + digits[end:]
    return insert[0]


class PrincipalRules:
    """The rules, in their order."""

    def __init__(self, rules: tuple[_Rule, ...]) -> None:
        self._rules = rules

    @classmethod
    def parse(cls, text: str) -> PrincipalRules:
        """Empty entries are ignored. Raises ValueError for what is no rule; the message follows the text."""
        rules: list[_Rule] = []
        at = 0
        while at < len(text):
            found = _NEXT.match(text, at)
            if found is None:
                raise ValueError(f"has no RULE:pattern/replacement/[LU] and no DEFAULT at {text[at:]!r}")
            if found[1]:
                rules.append(_Rule(None))
            elif found[2] is not None:
                rules.append(_Rule(_compiled(found[2]), found[3], found[4]))
            at = found.end()
        return cls(tuple(rules))

    def name(self, distinguished_name: str) -> str | None:
        """Return the principal's name by the first rule that matches; None if none does."""
        return next((name for rule in self._rules if (name := rule.apply(distinguished_name)) is not None), None)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(_JAVA_GROUP.sub(r"(?P<\1>", pattern))
    except re.error as error:
        raise ValueError(f"has the pattern {pattern}, which is no regular expression: {error}") from error
