"""Names that control a terminal, or that a locale cannot encode, through every command that shows names."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.cli import main
from muster.placement.view import Topic
from tests.gateway.group_client import UNKNOWN_ID, Member, find
from tests.gateway.serving import Client
from tests.muster_process import Muster

WAIT_S = 60
ODD = "\x1b[2J\x1b]0;owned\x07\nmuster: \u202egnorw \x9b31m :smile: 群 مج 🚀"
"""Clears a terminal, sets its title, breaks the line, reverses text, and uses four scripts."""
SHOWN = r"\x1b[2J\x1b]0;owned\x07\nmuster: \u202egnorw \x9b31m :smile: 群 مج 🚀"
SHOWN_IN_ASCII = SHOWN.encode("ascii", "backslashreplace").decode()
C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


class Odd:
    """A group with an odd name, member, client id, instance and metadata; it owns a partition and has committed."""

    def __init__(self, muster: Muster, group: str, topic: str, member: Member) -> None:
        self.muster, self.group, self.topic, self.member = muster, group, topic, member

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        return (
            ("groups", "list"),
            ("groups", "describe", self.group),
            ("groups", "history", self.group),
            ("groups", "delete", self.group),
            ("groups", "evict", self.group, ODD + "?"),
            ("groups", "reset-offsets", self.group, "--to-latest", "--topic", self.topic),
            ("groups", "waiting"),
            ("mapping", "list", "--group", self.group),
            ("mapping", "check", "--group", self.group),
            ("attribution-audit", "--group", ODD),
            ("topics", "describe", ODD),
            ("log", "dump", f"{self.topic}-0"),
            ("fault", "inject", ODD),
            ("drain", ODD),
        )

    @property
    def unattributed(self) -> tuple[tuple[str, ...], ...]:
        """Commands that show no name here."""
        return (("groups", "waiting"), ("mapping", "check", "--group", self.group))


@pytest.fixture(scope="module")
def odd(muster: Muster) -> Iterator[Odd]:
    topic, group = "odd-names", f"{ODD} {'g' * 200}"
    admin = AdminClient({"bootstrap.servers": muster.bootstrap})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(WAIT_S)
    producer = Producer({"bootstrap.servers": muster.bootstrap})
    producer.produce(topic, ODD.encode(), key=ODD.encode(), headers={ODD: ODD.encode()})
    assert producer.flush(WAIT_S) == 0
    port = int(muster.bootstrap.split(",")[0].rpartition(":")[2])
    with ExitStack() as stack:
        client = stack.enter_context(Client(port, ODD))
        find(client, 4, group)
        member = Member(client, group, version=9, instance=ODD)
        member.join(session_timeout_ms=300_000)
        member.sync({member.id: b"\0\0\0\0\0\1\0\x09odd-names\0\0\0\1\0\0\0\0\xff\xff\xff\xff"})
        commits = member.commit((Topic(name=topic, topic_id=UNKNOWN_ID, partitions=1), 0, 0), metadata=ODD)
        assert [error for _, _, error in commits] == [ErrorCode.none]
        yield Odd(muster, group, topic, member)


def command(odd: Odd, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "muster.gateway.cli.main", *arguments, "--storage", str(odd.muster.storage)]


def check(arguments: tuple[str, ...], text: str, code: int) -> None:
    assert code in (0, 1, 2), text
    assert "unexpected" not in text
    assert "Traceback" not in text
    lines = text.split("\n")
    assert all(line.isprintable() for line in lines), (arguments, text)
    assert not any(line.startswith("muster: \\u202e") for line in lines), "a name has a line of its own"


def test_every_command_shows_them_as_escapes(odd: Odd) -> None:
    for arguments in odd.commands:
        text, code = in_pipe(odd, *arguments)
        check(arguments, text, code)
        assert SHOWN in text or arguments in odd.unattributed, text


def in_pipe(odd: Odd, *arguments: str) -> tuple[str, int]:
    """In this process, which is faster, unless the command connects to Ray: a process has one token for it."""
    if arguments[0] in ("mapping", "drain"):
        done = odd.muster.run(*arguments)
        return done.stdout + done.stderr, done.returncode
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main._run([*arguments, "--storage", str(odd.muster.storage)])
    return out.getvalue() + err.getvalue(), code


def test_no_command_dies_of_them_where_the_locale_is_c(odd: Odd) -> None:
    for arguments in odd.commands[1::3]:
        done = subprocess.run(
            command(odd, *arguments),
            env={**os.environ, **C_LOCALE},
            capture_output=True,
            encoding="ascii",
            timeout=WAIT_S,
            check=False,
        )
        check(arguments, done.stdout + done.stderr, done.returncode)
        assert SHOWN_IN_ASCII in done.stdout + done.stderr


def test_none_of_them_drives_a_terminal(odd: Odd) -> None:
    for arguments in odd.commands[::3]:
        text, code = in_terminal(command(odd, *arguments))
        check(arguments, text, code)
        if "whole names" in text:
            text, code = in_terminal(command(odd, *arguments, "--wide"))
            check(arguments, text, code)
        in_a_row = "".join(text.split())  # a long word is split over several lines
        assert all(word in in_a_row for word in SHOWN.split()) or arguments in odd.unattributed, text


def in_terminal(command: list[str]) -> tuple[str, int]:
    """Output for a terminal of 80 columns, without styles, and the exit code."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "NO_COLOR": "1"}
    data = b""
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        try:
            while select.select([ours], [], [], WAIT_S)[0]:
                try:
                    data += os.read(ours, 1 << 16)
                except OSError:  # it has ended
                    break
            else:
                process.kill()
                raise AssertionError(f"it neither ends nor says more than {data!r}")
        finally:
            os.close(ours)
    text = data.decode().replace("\r\n", "\n")
    for style in ("\x1b[1m", "\x1b[0m", "\x1b[2m", "\x1b[?25l", "\x1b[?25h", "\x1b[2K", "\x1b[1A", "\r"):
        text = text.replace(style, "")
    return text, process.returncode


def test_json_has_them_exactly(odd: Odd) -> None:
    printed = {}
    for arguments in (("groups", "list"), ("groups", "describe", odd.group), ("groups", "history", odd.group)):
        done = subprocess.run(
            command(odd, *arguments, "--json"), env={**os.environ, **C_LOCALE}, capture_output=True, check=True
        )
        printed[arguments[1]] = json.loads(done.stdout.decode("ascii"))
    assert odd.group in {row["group"] for row in printed["list"]}
    (member,) = printed["describe"]["members"]
    assert (member["client_id"], member["group_instance_id"]) == (ODD, ODD)
    assert printed["history"]["entries"][0]["culprit"]["client_id"] == ODD


@pytest.mark.parametrize("command", ["delete", "describe"])
def test_a_topic_that_does_not_exist(muster: Muster, command: str) -> None:
    with redirect_stderr(io.StringIO()) as err:
        code = main._run(["topics", command, "nope", "--storage", str(muster.storage)])
    assert (code, err.getvalue()) == (1, "muster: there is no topic nope; see muster topics list\n")
