"""``muster topics produce`` and ``muster topics tail`` on a running Muster."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from functools import partial
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from muster.gateway.cli import messages
from muster.gateway.cli.client.cluster import end_offsets
from muster.gateway.cli.main import cli
from tests.cluster.test_odd_names import ODD, SHOWN
from tests.muster_process import Muster

WAIT_S = 60


def run(muster: Muster, *arguments: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(cli, ["topics", *arguments, "--bootstrap-server", muster.bootstrap], input=stdin)


def test_lines_become_messages_and_messages_lines(muster: Muster) -> None:
    odd = ODD.replace("\n", " ")
    sent = run(muster, "produce", "lines", stdin=f"one\n\n{odd}\nlast".encode())
    assert (sent.exit_code, sent.stdout, sent.stderr) == (0, "", "4 messages acknowledged\n")
    keyed = b"k:v:w\n\xff:\x00\n"
    sent = run(muster, "produce", "lines", "--key-separator", ":", "--header", "trace=7=8", stdin=keyed)
    assert sent.exit_code == 0, sent.output
    shown = run(muster, "tail", "lines", "--from-beginning", "--count", "6")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.splitlines() == ["one", "", SHOWN.replace(r"\n", " "), "last", "v:w", r"\x00"]
    assert shown.stderr == "waiting for messages of lines; Ctrl-C ends\n"
    as_json = run(muster, "tail", "lines", "--from-beginning", "--count", "6", "--partition", "0", "--json").stdout
    rows = [json.loads(line) for line in as_json.splitlines()]
    assert all(row.pop("timestamp") > 1e12 for row in rows)
    place = {"topic": "lines", "partition": 0}
    assert rows[2] == {**place, "offset": 2, "key": None, "headers": [], "value": odd}
    headers = [["trace", "7=8"]]
    assert rows[4:] == [
        {**place, "offset": 4, "key": "k", "headers": headers, "value": "v:w"},
        {**place, "offset": 5, "key": {"base64": "/w=="}, "headers": headers, "value": "\x00"},
    ]
    assert "muster-cli" not in muster.cli("groups", "list")


@pytest.mark.parametrize(("more", "code"), [([], 0), (["--count", "9"], 130)])
def test_tail_waits_for_messages_until_ctrl_c(muster: Muster, more: list[str], code: int) -> None:
    topic = f"later-{code}"
    assert run(muster, "produce", topic, stdin=b"before\n").exit_code == 0
    command = [sys.executable, "-m", "muster.gateway.cli.main", "topics", "tail", topic, *more]
    with subprocess.Popen(
        [*command, "--storage", str(muster.storage)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a job in the background ignores it
    ) as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        assert tail.stderr.readline() == f"waiting for messages of {topic}; Ctrl-C ends\n"
        assert run(muster, "produce", topic, stdin=b"after\n").exit_code == 0
        assert tail.stdout.readline() == "after\n"
        tail.send_signal(signal.SIGINT)
        rest, errors = tail.communicate(timeout=WAIT_S)
    assert (tail.returncode, rest, errors.strip()) == (code, "", "muster: interrupted" if code else "")


def test_tail_skips_no_message_silently(muster: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention deletes what it was about to read."""
    topic = "retained"
    assert run(muster, "produce", topic, stdin=b"1\n2\n3\n").exit_code == 0
    client = AdminClient({"bootstrap.servers": muster.bootstrap})

    def and_delete(*arguments: Any) -> dict[int, int]:
        found = end_offsets(*arguments)
        for done in client.delete_records([TopicPartition(topic, 0, 2)]).values():
            done.result(WAIT_S)
        return found

    monkeypatch.setattr(messages, "end_offsets", and_delete)
    shown = run(muster, "tail", topic, "--from-beginning", "--count", "1")
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert f"{topic}-0 no longer has the next message: deleted before it could be shown" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (["tail", "no-such"], b"", "there is no topic no-such; see muster topics list"),
        (["tail", "refused", "--partition", "1"], b"", "topic refused has 1 partition, from 0; there is no 1"),
        (["produce", "refused", "--key-separator", ":"], b"a:1\nb:2\nc\n", "line 3 has no key separator :"),
        (["produce", "refused", "--header", "a"], b"1\n", "--header a is not NAME=VALUE"),
        (["produce", "bad topic"], b"1\n", "1 message not acknowledged by bad topic: INVALID_TOPIC_EXCEPTION"),
    ],
)
def test_refusals_are_one_sentence(muster: Muster, arguments: list[str], stdin: bytes, said: str) -> None:
    assert run(muster, "produce", "refused", stdin=b"\n").exit_code == 0
    done = CliRunner().invoke(cli, ["topics", *arguments, "--bootstrap-server", muster.bootstrap], input=stdin)
    assert done.exit_code == 1
    assert said in done.stderr
    assert ("2 messages acknowledged" in done.stderr) is ("line 3" in said)
