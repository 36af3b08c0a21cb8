"""Suggestions for mistyped commands, at every level, and options that stand behind the command."""

from __future__ import annotations

import subprocess
import sys

import pytest

from muster.gateway.cli.suggestions import with_verbose_first


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
