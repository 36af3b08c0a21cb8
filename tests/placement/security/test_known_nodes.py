"""A place in ZooKeeper that is new has to be protected, and to be in backups or left out on purpose."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator

import pytest

from muster import placement
from muster.gateway.cli.backup import nodes
from muster.placement.zookeeper import securing

NOT_IN_BACKUPS = {
    "/brokers/ids": "who runs",
    "/controller": "who runs",
    "/cluster/id": "that of the storage, which has it, too",
    "/drained_nodes": "nodes of one Ray",
    "/kafka-acl-changes": "what brokers announce to each other",
    "/kafka-acl-extended-changes": "likewise",
}


def _places() -> Iterator[str]:
    """Every constant in ``placement`` that is a path."""
    for module in pkgutil.walk_packages(placement.__path__, "muster.placement."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if name.isupper() and isinstance(value, str) and value.startswith("/"):
                yield value


PLACES = sorted({*_places()})


def _is_within(path: str, roots: Iterable[str]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)


@pytest.mark.parametrize("path", PLACES)
def test_every_place_is_protected(path: str) -> None:
    assert _is_within(path, securing.ROOTS)


@pytest.mark.parametrize("path", PLACES)
def test_every_place_is_in_backups(path: str) -> None:
    assert _is_within(path, nodes.ROOTS) != (path in NOT_IN_BACKUPS)
