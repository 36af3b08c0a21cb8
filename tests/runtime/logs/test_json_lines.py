"""One JSON object for each record, whatever clients write into it."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from muster.actors.runtime.logs.json_lines import JsonFormatter
from muster.actors.runtime.process import log_to_file
from muster.actors.wire.kafka.codec import Header

RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@dataclass(frozen=True)
class _Joined:
    group: str
    member_id: str


def line_of(text: str, *arguments: Any, extra: Mapping[str, object] | None = None, exc_info: Any = None) -> str:
    logger = logging.Logger("muster.test")
    record = logger.makeRecord("muster.test", logging.WARNING, "", 1, text, arguments, exc_info, extra=extra)
    return JsonFormatter("offsets-3").format(record)


def test_a_line_says_when_who_and_what() -> None:
    fields = json.loads(line_of("lost %s", "log-1"))
    assert RFC_3339.fullmatch(fields.pop("time"))
    assert fields == {"level": "WARNING", "logger": "muster.test", "actor": "offsets-3", "message": "lost log-1"}


@pytest.mark.parametrize("name", ["two\nlines", "\x1b[31mred", '"}', "群", "\u2028", "\ud800"])
def test_names_of_clients_stay_in_their_line_and_are_exact(name: str) -> None:
    line = line_of("group %s", name, extra={"group": name})
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["group"] == name
    assert json.loads(line)["message"] == f"group {name}"


def test_what_the_record_knows_are_fields() -> None:
    request = Header(api_key=8, api_version=9, correlation_id=77, client_id="billing-1", end=0).log_fields
    known = json.loads(line_of("api key 8 failed", extra=request))
    assert (known["api"], known["correlation_id"], known["client_id"]) == (8, 77, "billing-1")
    event = json.loads(line_of("%s", _Joined("readers", "m-1")))
    assert (event["group"], event["member_id"]) == ("readers", "m-1")
    path = json.loads(line_of("%s is corrupt", Path("/srv/muster/logs/or-ders-12/00000000000000000000.0.1.log")))
    assert (path["topic"], path["partition"]) == ("or-ders", 12)
    assert "group" not in json.loads(line_of("%s", Path("/srv/other-1/file")))


def test_extra_counts_before_what_arguments_know() -> None:
    assert json.loads(line_of("%s", _Joined("one", "m"), extra={"group": "other"}))["group"] == "other"


def test_a_traceback_is_inside_the_object() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        line = line_of("failed", exc_info=sys.exc_info())
    assert "\n" not in line
    assert json.loads(line)["exception"].startswith("Traceback (most recent call last):\n")
    assert json.loads(line)["exception"].endswith("ValueError: two\nlines")


def test_a_message_that_does_not_fit_its_arguments_is_still_a_line() -> None:
    assert json.loads(line_of("%d", "text"))["message"] == "%d ('text',)"


def test_an_actor_writes_its_file_so(tmp_path: Path) -> None:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        log_to_file(tmp_path, "log-0", "json")
        logging.getLogger("muster.actors").info("%s is open", tmp_path / "logs" / "orders-0")
    finally:
        for handler in [each for each in root.handlers if each not in before]:
            root.removeHandler(handler)
            handler.close()
        root.setLevel(level)
    (written,) = (tmp_path / "run/log/log-0.log").read_text().splitlines()
    assert (json.loads(written)["actor"], json.loads(written)["topic"]) == ("log-0", "orders")
