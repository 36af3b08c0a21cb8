"""APIs that are not registered have a reason in docs/compatibility.md."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from kio.schema.index import api_key_map

import muster.gateway.apis  # noqa: F401 - registers the handlers
from muster.actors.wire.kafka import codec
from muster.gateway.apis.guards.guard import UNGUARDED
from muster.gateway.docs.compatibility import NOT_SERVED
from muster.gateway.listener.api import APIS, api


def test_every_api_is_served_or_has_one_reason() -> None:
    said = Counter([*APIS, *(key for each in NOT_SERVED for key in each.keys)])
    assert set(said) == {int(key) for key in api_key_map}
    assert [key for key, times in said.items() if times > 1] == []


def test_every_version_is_served_or_has_a_reason() -> None:
    assert all(set(each.versions) <= set(codec.versions_of(key)) for key, each in APIS.items())
    lacking = {key for key, each in APIS.items() if set(each.versions) != set(codec.versions_of(key))}
    assert lacking == {key for key, each in APIS.items() if each.left_out}


@pytest.mark.parametrize("given", [{"versions": range(1)}, {"left_out": "there is no reason"}])
def test_a_version_without_a_reason_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="EndTxn: say why versions are left out"):
        api(26, "EndTxn", guard=UNGUARDED, error_body=lambda _, error: {"error_code": error}, **given)


def test_apis_carry_kafkas_names() -> None:
    assert {key: each.name for key, each in APIS.items()} == {key: codec.api_name(key) for key in APIS}
