"""One private Muster for the tests of this folder that need any; each uses topics and groups of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import muster

PROPERTIES = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}


@pytest.fixture(scope="package")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the storage directory of ``kafka``."""
    return tmp_path_factory.mktemp("run") / "storage"


@pytest.fixture(scope="package")
def kafka(storage: Path) -> Iterator[muster.Cluster]:
    """Yield a Muster that a thread has started which has ended since, as the threads of a notebook's executor do."""
    started: list[muster.Cluster] = []
    thread = threading.Thread(target=lambda: started.append(muster.run(storage, properties=PROPERTIES)))
    thread.start()
    thread.join()
    with started[0] as running:
        yield running
