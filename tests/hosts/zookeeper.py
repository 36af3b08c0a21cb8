"""The ZooKeeper of the shared storage on a host of its own: ``python -m tests.hosts.zookeeper ADDRESS PORT``."""

from __future__ import annotations

import signal
import sys

from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from tests.hosts.host import SHARED
from tests.muster_process import eventually

_FREE_S = 60


def main(address: str, port: int) -> None:
    """Run until it is killed, on the data of the one that ran on the head, once that one has ended."""
    eventually(lambda: EmbeddedZooKeeper.start(f"{SHARED}/zookeeper", port, host=address), bool, "it starts", _FREE_S)
    signal.pause()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
