"""URLs of the console's views. Names of groups and topics are in the query, encoded: they may be any text."""

from __future__ import annotations

from urllib.parse import urlencode

OVERVIEW, GROUPS, GROUP, TOPICS, TOPIC = "/", "/groups", "/group", "/topics", "/topic"
CLUSTER, FAULTS, ATTRIBUTION, ANALYTICS, LOGIN = "/cluster", "/faults", "/attribution", "/analytics", "/login"


def link(path: str, **query: object) -> str:
    """Return the path with those parameters that have a value."""
    given = {name: str(value) for name, value in query.items() if value not in (None, "", False)}
    return f"{path}?{urlencode(given)}" if given else path


def group(name: str) -> str:
    """Return the URL of a group's page."""
    return link(GROUP, name=name)


def topic(name: str) -> str:
    """Return the URL of a topic's page."""
    return link(TOPIC, name=name)


def is_local(path: str) -> bool:
    """Return whether a path leads to this console: not to another host, nor to a scheme."""
    return path.startswith("/") and not path.startswith(("//", "/\\")) and not any(ord(char) < 32 for char in path)
