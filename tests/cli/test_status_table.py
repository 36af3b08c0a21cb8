"""``muster status`` on a terminal of 80 columns, with --wide, and in a pipe."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from muster.actors.runtime import rich_console
from muster.gateway.cli.lifecycle.status import show

HEAD, OTHER = "f09d3ff8" + "a" * 48, "f09d3ff8" + "b" * 48
NO_DISK = "OSError: [Errno 28] No space left on device: /srv/muster/logs/orders-3/00000000000000000000.log"
MEND = "let it speak the protocol of Kafka 2.1 or later: in sarama config.Version = sarama.V2_1_0_0"


def actor(name: str, node_id: str, **others: Any) -> dict[str, Any]:
    known = {"state": "alive", "pid": 1234567, "address": None, "further_addresses": {}, "restarts": 0}
    return {"name": name, "node_id": node_id, **known, "error": None, "stand_in": None, **others}


def status(other_address: str = "192.168.100.102", **of_log: Any) -> dict[str, Any]:
    actors = [
        actor("controller", HEAD, restarts=None),
        actor("gateway-1", HEAD, address="192.168.100.101:9092"),
        actor("gateway-2", OTHER, address="192.168.100.102:9092"),
        actor("log-0", OTHER, **of_log),
        actor("transactions-49", HEAD),
    ]
    nodes = [
        {"node_id": HEAD, "address": "192.168.100.101", "state": "alive", "actors": ["a", "b", "c"]},
        {"node_id": OTHER, "address": other_address, "state": "alive", "actors": ["d", "e"]},
    ]
    return {"nodes": nodes, "actors": actors}


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    def console(err: bool = False, wide: bool = False) -> Console:
        return Console(width=rich_console.NO_WIDTH if wide else 80, force_terminal=True, color_system=None, stderr=err)

    monkeypatch.setattr(rich_console, "console", console)


@pytest.mark.usefixtures("narrow")
def test_it_fits_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    show(status(), wide=False)
    shown, said = capsys.readouterr()
    assert [line.rstrip() for line in shown.splitlines()] == [
        "NODE       ADDRESS          STATE  ACTORS",
        "f09d3ff8a  192.168.100.101  alive       3",
        "f09d3ff8b  192.168.100.102  alive       2",
        "",
        "ACTOR            STATE  NODE                 PID  ADDRESS               RESTARTS",
        "controller       alive  192.168.100.101  1234567  -                            -",
        "gateway-1        alive  192.168.100.101  1234567  192.168.100.101:9092         0",
        "gateway-2        alive  192.168.100.102  1234567  192.168.100.102:9092         0",
        "log-0            alive  192.168.100.102  1234567  -                            0",
        "transactions-49  alive  192.168.100.101  1234567  -                            0",
        "",
        "5 actors on 2 nodes, all alive",
    ]
    assert said == ""


@pytest.mark.usefixtures("narrow")
def test_what_has_no_column_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    client = {"client_id": "sarama", "host": "192.168.100.103", "api": "Fetch", "version": 3, "times": 7, "last_ms": 0}
    turned_away = [{**client, "mend": MEND}, {**client, "client_id": "Telegraf", "mend": MEND}]
    of_log: dict[str, Any] = {"state": "restarting", "restarts": 3, "error": NO_DISK, "stand_in": "standby-1"}
    found = status(**of_log)
    show({**found, "clients_turned_away": turned_away}, wide=False)
    shown, said = capsys.readouterr()
    assert all(len(line) <= 80 for line in shown.splitlines())
    lines = shown.replace("\n  ", " ").splitlines()
    assert "log-0: standby-1 serves in its place" in lines
    assert f"log-0: {NO_DISK}" in lines
    assert "5 actors on 2 nodes: 4 alive, 1 restarting" in lines
    assert f"in all rows: MEND {MEND}" in lines
    assert said == "--wide shows STANDBY, RESTARTS and ERROR\n"


@pytest.mark.usefixtures("narrow")
def test_nodes_at_one_address_have_their_ids(capsys: pytest.CaptureFixture[str]) -> None:
    show(status(other_address="192.168.100.101"), wide=False)
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("log-0"))
    assert row.split()[:3] == ["log-0", "alive", "f09d3ff8b"]


def test_the_zone_of_a_time_is_in_its_column(capsys: pytest.CaptureFixture[str]) -> None:
    client = {"client_id": "a", "host": "h", "api": "Fetch", "version": 3, "times": 7, "last_ms": 999, "mend": MEND}
    show({**status(), "clients_turned_away": [client]}, wide=True)
    (head, row) = capsys.readouterr().out.partition("TURNED AWAY")[2].splitlines()[:2]
    assert head.index("LAST (UTC)") + len("TURNED AWAY") == row.index("1970-01-01 00:00:00  ")


def test_a_pipe_has_everything(capsys: pytest.CaptureFixture[str]) -> None:
    show(status(error=NO_DISK), wide=False)
    piped = capsys.readouterr()
    show(status(error=NO_DISK), wide=True)
    assert capsys.readouterr() == piped
    assert HEAD in piped.out
    (row,) = (line for line in piped.out.splitlines() if line.startswith("log-0"))
    assert row.endswith(NO_DISK)
    assert piped.err == ""
