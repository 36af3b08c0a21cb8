"""``muster fault`` before it reaches a cluster: an error is one line, and no request is sent."""

from __future__ import annotations

import shlex
import socket
import threading
from pathlib import Path

import pytest

from muster.gateway.cli import main
from tests.cli.conftest import Muster, one_line
from tests.house.test_docs import PAGES, command_lines

CLOSED = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("arguments", "text", "code"),
    [
        (("inject", "erorr"), "'erorr' is not known (did you mean error?)", 1),
        (("inject", "drop", "--once", "--nth", "2"), "--nth and --once exclude each other", 2),
        (("inject", "drop", "--probability", "0.5"), "--probability and --seed go together", 2),
        (("kill",), "kill needs either actor, or group", 1),
        (("kill", "log-0"), "no muster runs on storage muster-data", 1),
        (("list", "--http", "http://127.0.0.1:1"), "no gateway listens at http://127.0.0.1:1", 1),
    ],
)
def test_what_is_refused(muster: Muster, arguments: tuple[str, ...], text: str, code: int) -> None:
    done = muster("fault", *arguments)
    assert text in one_line(done)
    assert done.returncode == code


@pytest.mark.parametrize(
    ("gone", "why"),
    [
        (CLOSED, "Connection refused"),
        ("http://255.255.255.255:9404", ""),
        ("http://no-such-host.invalid:9404", ""),
        ("localhost:9404", "not a URL such as http://HOST:PORT"),
    ],
)
def test_the_next_gateway_is_tried_where_nothing_can_be_sent(
    gone: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main._run(["fault", "list", "--http", f"{gone},{CLOSED}"]) == 1
    error = capsys.readouterr().err
    assert f"no gateway listens at {gone} ({why}" in error
    assert f"), {CLOSED} (Connection refused)" in error


def test_a_request_that_may_have_been_done_is_not_sent_to_another_gateway(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        urls = [f"http://127.0.0.1:{listener.getsockname()[1]}" for listener in (first, second)]
        closing = threading.Thread(target=lambda: first.accept()[0].close())
        closing.start()
        assert main._run(["fault", "kill", "log-0", "--http", ",".join(urls)]) == 1
        closing.join()
        second.setblocking(False)
        with pytest.raises(BlockingIOError):
            second.accept()
    assert f"{urls[0]} does not respond" in capsys.readouterr().err


def test_a_plan_is_checked_whole_before_anything_runs(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("steps: [{at: 1s, action: kil}, {at: 2s, action: delay}]")
    error = one_line(muster("fault", "run", "plan.yaml", "--http", "http://127.0.0.1:1"))
    assert "plan.yaml: step 1: action: 'kil' is not known (did you mean kill?)" in error
    assert "step 2: delay needs delay_ms" in error


def test_what_the_documents_inject_is_a_fault(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for page in PAGES for line in command_lines(page) if line.startswith("muster fault inject ")]
    assert any("--gateway" in line for line in lines)
    for line in lines:
        assert main._run([*shlex.split(line)[1:], "--http", CLOSED]) == 1
        assert "no gateway listens at" in capsys.readouterr().err, line
