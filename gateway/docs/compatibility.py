"""The tables of docs/compatibility.md, from what the handlers register; see :mod:`muster.gateway.docs.generate`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import muster.gateway.apis  # noqa: F401 - registers the handlers
from muster.actors.wire.kafka import codec
from muster.gateway.docs.markdown import table
from muster.gateway.listener.api import APIS, Api


class NotServed(NamedTuple):
    what: str
    reason: str
    keys: tuple[int, ...]


NOT_SERVED = (
    NotServed(
        "Delegation tokens",
        "are not part of Muster; SASL is served (PLAIN, SCRAM-SHA-256 and -512, OAUTHBEARER)",
        (38, 39, 40, 41),
    ),
    NotServed("Share groups (KIP-932)", "are not part of Muster", (76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92)),
    NotServed("Streams groups (KIP-1071)", "are not part of Muster", (88, 89)),
    NotServed(
        "Between Kafka's brokers and controllers",
        "there is no KRaft quorum: Ray and ZooKeeper do this",
        (52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 80, 81, 82),
    ),
)
"""Every API that kio knows and no handler serves, by reason. What a handler leaves out is in its own module."""


def render() -> str:
    """Return the two tables, as Markdown."""
    served = [_served(APIS[key]) for key in sorted(APIS)]
    unserved = [_unserved(each) for each in NOT_SERVED]
    return "\n\n".join(
        (
            table(("key", "API", "versions", "left out, and why"), served),
            "Not served:",
            table(("what", "APIs (key)", "why"), unserved),
        )
    )


def _served(each: Api) -> tuple[str, ...]:
    left_out = sorted(set(codec.versions_of(each.key)) - set(each.versions))
    why = f"{_list(f'v{version}' for version in left_out)}: {each.left_out}" if left_out else ""
    return str(each.key), each.name, f"{each.versions[0]}-{each.versions[-1]}", why


def _unserved(each: NotServed) -> tuple[str, ...]:
    return each.what, _list(f"{codec.api_name(key)} ({key})" for key in each.keys), each.reason


def _list(items: Iterable[str]) -> str:
    return ", ".join(items)
