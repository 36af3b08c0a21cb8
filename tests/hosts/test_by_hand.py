"""The commands of docs/operations/nodes.md for three hosts without ``ray up``, as they stand there.

First in this folder: its hosts are gone before those of the other tests are made.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.everywhere import library_reaches
from tests.hosts.host import Host
from tests.hosts.installing import ROOT
from tests.hosts.plain import plain_hosts

pytestmark = pytest.mark.timeout(600)

_PAGE = ROOT / "docs" / "operations" / "nodes.md"
_IN_PAGE, _HERE = "10.0.0.", "10.77.0."
_ADDRESSES = {"head": f"{_HERE}10", "w1": f"{_HERE}11", "w2": f"{_HERE}12"}
_COMMAND_S = 240.0


def block() -> list[tuple[str, str]]:
    """(who runs it, command) of the block for three hosts."""
    section = _PAGE.read_text().partition("## Start three hosts\n")[2]
    text = section.partition("```console\n")[2].partition("```")[0].replace("\\\n", " ").replace(_IN_PAGE, _HERE)
    return re.findall(r"^(head|each worker)\$ (.+)$", text, re.MULTILINE)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[dict[str, Host]]:
    """With this checkout's venv on PATH; the head may log in on the others."""
    with plain_hosts(tmp_path, _ADDRESSES, f"{_HERE}101") as made:
        for host in made.values():
            shutil.copy(tmp_path / "key", host.home / ".ssh/id_ed25519")  # mode 600
            (host.home / ".ssh/config").write_text("StrictHostKeyChecking accept-new\n")
        yield made


def test_three_hosts_without_ray_up(hosts: dict[str, Host]) -> None:
    commands = block()
    assert len(commands) == 5
    for who, command in commands:
        for name in ["head"] if who == "head" else ["w1", "w2"]:
            hosts[name].done(f"unset RAY_AUTH_MODE; {command}", _COMMAND_S)
    tokens = [host.home / ".ray/auth_token" for host in hosts.values()]
    assert len({token.read_text() for token in tokens}) == 1
    assert {token.stat().st_mode & 0o777 for token in tokens} == {0o600}
    library_reaches("confluent-kafka", _ADDRESSES["w2"], set(_ADDRESSES.values()))
