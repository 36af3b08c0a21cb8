"""Suggestions for mistyped commands, options and names, at every level, and options that stand behind the command."""

from __future__ import annotations

import subprocess
import sys

import pytest

from muster.gateway.cli import main
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.suggestions import not_found, with_verbose_first


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["stauts"], "No such command 'stauts'. Did you mean status? See: muster --help"),
        (["group", "list"], "No such command 'group'. Did you mean groups? See: muster --help"),
        (["groups", "lst"], "No such command 'lst'. Did you mean list? See: muster groups --help"),
        (["audits"], "No such command 'audits'. Did you mean audit-log? See: muster --help"),
        (["administratio"], "No such command 'administratio'. See: muster --help"),
        (["acls", "rm"], "No such command 'rm'. See: muster acls --help"),
    ],
)
def test_the_nearest_command_is_named(arguments: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "muster.gateway.cli.main", *arguments], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"muster: {said}\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("groups lag --group billing", "GROUP is an argument: muster groups lag billing."),
        ("groups describe --group=billing", "GROUP is an argument: muster groups describe billing."),
        ("groups describe --group", "GROUP is an argument: muster groups describe GROUP."),
        ("groups list --describe", "describe is a command: muster groups describe GROUP."),
        ("groups --describe --group billing", "describe is a command: muster groups describe billing."),
        ("groups --list", "list is a command: muster groups list."),
        ("topics --create --topic t", "create is a command: muster topics create t."),
        ("topics describe --topic t", "NAME is an argument: muster topics describe t."),
        (
            "groups lag --bootstrap-server h:1",
            "muster groups lag needs more than Kafka's protocol: use --storage or --address; with --bootstrap-server "
            "use muster groups describe GROUP.",
        ),
        *(
            (
                f"{command} --bootstrap-server h:1",
                f"muster {command} needs more than Kafka's protocol: use --storage or --address.",
            )
            for command in ("groups history", "mapping list", "drain")
        ),
    ],
)
def test_options_of_kafkas_tools(capfd: pytest.CaptureFixture[str], arguments: str, said: str) -> None:
    assert main._run(arguments.split()) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert f" {said} See: muster " in err


@pytest.mark.parametrize("command", ["up", "doctor", "storage check"])
def test_other_commands_take_no_address_of_a_gateway(capfd: pytest.CaptureFixture[str], command: str) -> None:
    assert main._run([*command.split(), "--bootstrap-server", "h:1"]) == 2
    assert capfd.readouterr().err == f"muster: No such option '--bootstrap-server'. See: muster {command} --help\n"


def test_a_usage_error_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    """click lists choices with a line for each."""
    assert main._run(["spark"]) == 2
    assert "Choose from: consumption, lag, " in capfd.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("reader", "there is no group reader; did you mean readers?"),
        ("READERS", "there is no group READERS; did you mean readers?"),
        ("g-1", "there is no group g-1; see muster groups list"),
    ],
)
def test_the_nearest_group_is_named(name: str, said: str) -> None:
    assert not_found("group", name, lambda: ["readers", "g-2", "g-12", "billing"]).message == said


def test_too_many_names_to_compare() -> None:
    names = ["readers", *map(str, range(5000))]
    assert not_found("group", "reader", lambda: names).message == "there is no group reader; see muster groups list"


def test_names_that_cannot_be_read() -> None:
    def refused() -> list[str]:
        raise CliError("no")

    assert not_found("topic", "greeting", refused).message == "there is no topic greeting; see muster topics list"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("groups list", "groups list"),
        ("groups list -v", "-v groups list"),
        ("groups --verbose list --json", "-v groups list --json"),
        ("topics alter -- -v", "topics alter -- -v"),
    ],
)
def test_verbose_may_stand_anywhere(given: str, read: str) -> None:
    assert with_verbose_first(given.split()) == read.split()
