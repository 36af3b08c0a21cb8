"""docs/compatibility.md says what is registered, and gives a reason for the rest."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from kio.schema.index import api_key_map

import gateway.apis  # noqa: F401 - registers the handlers
from actors.wire import codec
from gateway.compatibility import NOT_SERVED, VERSIONS_LEFT_OUT, generated_part, kafkas_name, render, rewritten
from gateway.registry import APIS

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"


def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text()
    assert generated_part(page) == render(), "run: python -m gateway.compatibility docs/compatibility.md"
    assert rewritten(page) == page


def test_every_api_is_served_or_has_one_reason() -> None:
    said = Counter([*APIS, *(key for each in NOT_SERVED for key in each.keys)])
    assert set(said) == {int(key) for key in api_key_map}
    assert [key for key, times in said.items() if times > 1] == []


def test_every_version_is_served_or_has_a_reason() -> None:
    lacking = {key for key, each in APIS.items() if set(each.versions) != set(codec.versions_of(key))}
    assert lacking == set(VERSIONS_LEFT_OUT)
    assert all(set(each.versions) <= set(codec.versions_of(key)) for key, each in APIS.items())


def test_apis_carry_kafkas_names() -> None:
    assert {key: each.name for key, each in APIS.items()} == {key: kafkas_name(key) for key in APIS}
