"""The table of docs/security.md: what each API requires, from the guards that its handlers register."""

from __future__ import annotations

import muster.gateway.apis  # noqa: F401 - registers the handlers
from muster.gateway.docs.markdown import table
from muster.gateway.listener.registry import APIS, Api, Rule


def render() -> str:
    """The table, as Markdown."""
    rows = [row for key in sorted(APIS) for row in _rows(APIS[key])]
    unguarded = ", ".join(f"{api.name} ({key})" for key, api in sorted(APIS.items()) if not api.guard.rules)
    return "\n\n".join((table(("key", "API", "requires", "refused as"), rows), f"Open to every client: {unguarded}."))


def _rows(api: Api) -> list[tuple[str, ...]]:
    return [(str(api.key), api.name, _required(rule), _refused(rule)) for rule in api.guard.rules]


def _required(rule: Rule) -> str:
    rights = " or ".join(f"{right.operation.name} {right.resource.name}" for right in rule.rights)
    return f"{rights} ({rule.of})" if rule.of else rights


def _refused(rule: Rule) -> str:
    if rule.error is None:
        return "left out"
    return f"{int(rule.error)} {rule.error.name.upper()}{', the whole request' if rule.of_all else ''}"
