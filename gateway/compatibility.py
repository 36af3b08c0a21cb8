"""The tables of docs/compatibility.md, from what the handlers register: ``python -m gateway.compatibility FILE``.

Rewrites the part of the file between the two markers; without FILE it prints that part.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from kio.schema.index import api_key_map

from actors.wire import codec
from gateway.registry import APIS, Api

BEGIN, END = "<!-- begin: python -m gateway.compatibility -->", "<!-- end -->"


class NotServed(NamedTuple):
    what: str
    reason: str
    keys: tuple[int, ...]


NOT_SERVED = (
    NotServed("Transactions", "come with a later version", (24, 25, 26, 27, 28, 61, 65, 66)),
    NotServed("Consumer groups of KIP-848", "come with a later version", (68, 69)),
    NotServed(
        "SASL, ACLs, delegation tokens, SCRAM",
        "come with a later version",
        (17, 29, 30, 31, 36, 38, 39, 40, 41, 50, 51),
    ),
    NotServed("Client quotas", "come with a later version", (48, 49)),
    NotServed("Changing configs", "not there yet: a broker reads its properties when it starts", (33, 44, 74)),
    NotServed("Deleting records and single offsets", "not there yet", (21, 47)),
    NotServed("Leader epochs", "Metadata gives none, so no consumer asks for one", (23,)),
    NotServed(
        "Replicas and log directories",
        "there is one copy, on `storage.path`; placement decides who serves it",
        (34, 35, 43, 45, 46),
    ),
    NotServed("Share groups (KIP-932)", "are not part of Muster", (76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92)),
    NotServed("Streams groups (KIP-1071)", "are not part of Muster", (88, 89)),
    NotServed("Client telemetry (KIP-714)", "gateways count what they serve themselves, see `/metrics`", (71, 72)),
    NotServed("DescribeTopicPartitions (KIP-966)", "Metadata answers the same; clients fall back to it", (75,)),
    NotServed(
        "Between Kafka's brokers and controllers",
        "there is no KRaft quorum: Ray and ZooKeeper do this",
        (52, 53, 54, 55, 56, 57, 58, 59, 62, 63, 64, 67, 70, 73, 80, 81, 82),
    ),
)
"""Every API that kio knows and no handler serves, by reason."""

VERSIONS_LEFT_OUT: Mapping[int, str] = {}
"""Why a served API lacks versions that kio has, by api key."""


def kafkas_name(key: int) -> str:
    """The API's name as the protocol guide writes it."""
    return "".join(word.capitalize() for word in api_key_map[key].split("_"))


def render() -> str:
    """The two tables, as Markdown."""
    served = [_served(APIS[key]) for key in sorted(APIS)]
    unserved = [_unserved(each) for each in NOT_SERVED]
    return "\n\n".join(
        (
            _table(("key", "API", "versions", "left out, and why"), served),
            "Not served:",
            _table(("what", "APIs (key)", "why"), unserved),
        )
    )


def _served(each: Api) -> tuple[str, ...]:
    left_out = sorted(set(codec.versions_of(each.key)) - set(each.versions))
    why = f"{_list(f'v{version}' for version in left_out)}: {VERSIONS_LEFT_OUT[each.key]}" if left_out else ""
    return str(each.key), each.name, f"{each.versions[0]}-{each.versions[-1]}", why


def _unserved(each: NotServed) -> tuple[str, ...]:
    return each.what, _list(f"{kafkas_name(key)} ({key})" for key in each.keys), each.reason


def _list(items: Iterable[str]) -> str:
    return ", ".join(items)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))


def generated_part(page: str) -> str:
    """What stands between the markers. ValueError if they are not there."""
    return _parts(page)[1].strip()


def rewritten(page: str) -> str:
    """The page with the tables of now. ValueError as above."""
    before, _, after = _parts(page)
    return f"{before}\n{render()}\n{after}"


def _parts(page: str) -> tuple[str, str, str]:
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    return page[:begin], page[begin:end], page[end:]


def main(arguments: list[str]) -> None:
    import gateway.apis  # noqa: F401 - registers the handlers

    if not arguments:
        print(render())
        return
    path = Path(arguments[0])
    path.write_text(rewritten(path.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
