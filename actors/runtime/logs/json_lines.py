"""Log records as JSON, one object on each line (``muster up --log-format json``).

A line always has ``time`` (RFC 3339, UTC, ms), ``level``, ``logger``, ``actor`` and ``message``; a traceback is in
``exception``. :data:`FIELDS` are fields of their own where the record knows them. That costs nothing until a line is
written:

* ``extra`` of the call, as in ``log.warning(..., extra={"group": group})``;
* what the arguments of the message know: the events of coordinators have groups and members, and a path below
  ``logs/`` has a topic and a partition.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

FIELDS = (
    "group",
    "member_id",
    "topic",
    "partition",
    "transactional_id",
    "producer_id",
    "api",
    "correlation_id",
    "client_id",
    "client_host",
    "client_port",
    "connection",
    "principal",
    "pid",
    "node_id",
)
"""In this order. ``api`` is a Kafka API's name or key, ``connection`` a gateway's number of it."""

_PARTITION = re.compile(r"(?:^|/)logs/([^/]+)-(\d+)(?:/|$)")
_PLAIN = (str, int, float, bool)


class JsonFormatter(logging.Formatter):
    """Formats each record as one line of ASCII JSON. ``actor``: of this process."""

    def __init__(self, actor: str) -> None:
        super().__init__()
        self._actor = actor

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _rfc_3339(record.created),
            "level": record.levelname,
            "logger": record.name,
            "actor": self._actor,
            "message": _message(record),
            **fields_of(record),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = record.stack_info
        return json.dumps(line)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the record's values of :data:`FIELDS`: text, numbers or null."""
    known: dict[str, Any] = {}
    arguments = record.args if isinstance(record.args, tuple) else (record.args,)
    for argument in reversed(arguments):
        known.update(_known_by(argument))
    known.update((name, value) for name in FIELDS if (value := getattr(record, name, None)) is not None)
    return {name: known[name] for name in FIELDS if name in known}


def _known_by(argument: object) -> Iterator[tuple[str, Any]]:
    if isinstance(argument, os.PathLike):
        if found := _PARTITION.search(os.fspath(argument)):
            yield from (("topic", found[1]), ("partition", int(found[2])))
    elif argument is not None and not isinstance(argument, (*_PLAIN, BaseException)):
        for name in FIELDS:
            if isinstance(value := getattr(argument, name, None), _PLAIN):
                yield name, value


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        return f"{record.msg} {record.args}"


def _rfc_3339(created_s: float) -> str:
    moment = datetime.fromtimestamp(created_s, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
