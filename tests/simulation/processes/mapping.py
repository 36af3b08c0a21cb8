"""Whether ZooKeeper holds the registrations that the coordinator holds."""

from __future__ import annotations

import json
from collections.abc import Iterator

from muster.placement.layout import CLIENT_GROUP_ID
from muster.placement.mapping.nodes import encode_registration, is_registration_path, registration_path
from muster.placement.mapping.registration import Registration
from tests.simulation.processes.zookeeper import ZooKeeperServer


def unlike(server: ZooKeeperServer, registrations: tuple[Registration, ...]) -> Iterator[str]:
    """Yield the differences between ZooKeeper and the coordinator's registrations."""
    wanted = {registration_path(each): encode_registration(each) for each in registrations}
    found = {path: node.data for path, node in server.nodes.items() if is_registration_path(path)}
    for path in sorted(wanted.keys() | found.keys()):
        if wanted.get(path) != found.get(path):
            said, should = _said(found.get(path)), _said(wanted.get(path))
            yield f"{path.removeprefix(CLIENT_GROUP_ID)} holds {said}, not {should}"


def _said(data: bytes | None) -> str:
    if data is None:
        return "nothing"
    held = json.loads(data)
    return f"epoch {held['epoch']} sequence {held['sequence']}"
