"""The node that ``muster drain`` selects, and its refusals. Its effect: tests/nodes."""

from __future__ import annotations

import pytest

from muster.gateway.cli.errors import CliError
from muster.gateway.cli.lifecycle.drain import node_of

NODES = [
    {"node_id": "ab12", "address": "10.0.0.1", "state": "alive"},
    {"node_id": "ab34", "address": "10.0.0.2", "state": "alive"},
    {"node_id": "cd56", "address": "10.0.0.2", "state": "dead"},
    {"node_id": "ef78", "address": "10.0.0.3", "state": "drained"},
    {"node_id": "0a90", "address": "10.0.0.4", "state": "dead"},
]
ONE_LEFT = [{**node, "state": "draining"} if node["node_id"] == "ab34" else node for node in NODES]


@pytest.mark.parametrize(
    ("text", "node_id"), [("ab1", "ab12"), ("ab34", "ab34"), ("10.0.0.1", "ab12"), ("10.0.0.2", "ab34"), ("e", "ef78")]
)
def test_a_node_by_id_beginning_or_address(text: str, node_id: str) -> None:
    """A host that rejoined has the address of a dead node: the live one is meant."""
    assert node_of(text, NODES)["node_id"] == node_id


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("ab", "ab is 2 nodes: ab12, ab34; give more of the id"),
        ("10.0.0.9", "no node 10.0.0.9; muster status shows ids and addresses"),
        ("10.0.0", "no node 10.0.0;"),
        ("", "no node ;"),
        ("cd56", "node cd56 is dead; its actors are elsewhere already"),
    ],
)
def test_what_is_no_node(text: str, error: str) -> None:
    with pytest.raises(CliError, match=error):
        node_of(text, NODES)


def test_the_last_node_stays() -> None:
    with pytest.raises(CliError, match="node ab12 is the last one that is not drained"):
        node_of("ab12", ONE_LEFT)
    assert node_of("ab12", ONE_LEFT, undo=True)["node_id"] == "ab12"


def test_an_interrupted_drain_can_be_requested_again() -> None:
    assert node_of("ab34", ONE_LEFT)["node_id"] == "ab34"
