"""A gateway with its log actors and coordinators in one process, without Ray: STORAGE ZOOKEEPER PORT as arguments.

Its actors are the real ones, behind real sockets. Two servers on one storage directory duplicate every actor; SIGKILL
kills all actors of a server. It writes ``serving`` to stdout, and ends when its stdin is closed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tests.gateway.serving as served_alone
from muster.placement.topics import TopicRegistry
from muster.placement.view import Broker
from muster.placement.zookeeper.client import connect

_PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.bytes": "65536",
    "offsets.topic.segment.bytes": "65536",
}


class Registry(TopicRegistry):
    """A second server finds the topics of the first."""

    def create(self, name, *what, **how):  # type: ignore[no-untyped-def]
        return self.load().get(name) or super().create(name, *what, **how)


def main(storage: str, hosts: str, port: str) -> None:
    served_alone.TopicRegistry = Registry
    setattr(served_alone, "BROKERS", (Broker(id=1, host="127.0.0.1", port=int(port), node_id="n1"),))  # noqa: B010 - one, not two
    zk = connect(hosts, timeout_s=10)
    with served_alone.serving(zk, Path(storage), _PROPERTIES, with_actors=True) as running:
        running.run(running.gateway.listen("127.0.0.1", int(port)))
        print("serving", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
