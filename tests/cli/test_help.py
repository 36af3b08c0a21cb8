"""Every command says what it does, with an example."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from muster.gateway.cli.main import _COMMANDS, cli


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, (*path, name))


@pytest.mark.parametrize("path", list(commands(cli)), ids=" ".join)
def test_help_has_an_example(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(cli, [*path, "--help"])
    assert shown.exit_code == 0
    assert f"Example: muster {' '.join(path)}".strip() in " ".join(shown.output.split())
    assert "Usage:" in shown.output
    listed = shown.output.partition("Commands:")[2].splitlines()
    assert not [line for line in listed if line.endswith("...")], "a text is cut"


@pytest.mark.parametrize(("former", "name"), [("audit", "attribution-audit"), ("administration", "audit-log")])
def test_former_names_still_run_and_are_shown_nowhere(former: str, name: str) -> None:
    shown = CliRunner().invoke(cli, [former, "--help"]).output
    assert shown.startswith(f"Usage: cli {name} [OPTIONS]")
    listed = [line.split()[0] for line in CliRunner().invoke(cli, ["--help"]).output.splitlines() if line.strip()]
    assert name in listed
    assert former not in listed
    words = {"COMP_WORDS": f"muster {former[:3]}", "COMP_CWORD": "1", "_MUSTER_COMPLETE": "bash_complete"}
    completed = CliRunner().invoke(cli, prog_name="muster", env=words).output.split()
    assert f"plain,{former}" not in completed


def test_version() -> None:
    assert "muster, version" in CliRunner().invoke(cli, ["--version"]).output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_help_says_how_a_shell_completes(shell: str) -> None:
    (line,) = [
        line for line in CliRunner().invoke(cli, ["--help"]).output.splitlines() if line.strip().startswith(f"{shell}:")
    ]
    assert f"_MUSTER_COMPLETE={shell}_source muster" in line
    name, value = "_MUSTER_COMPLETE", f"{shell}_source"
    script = CliRunner().invoke(cli, prog_name="muster", env={name: value}).output
    assert "muster" in script
    assert f"{shell}_complete" in script
    words = {"COMP_WORDS": "muster groups de", "COMP_CWORD": "2" if shell != "fish" else "de"}
    completions = CliRunner().invoke(cli, prog_name="muster", env={name: f"{shell}_complete", **words}).output
    assert "describe" in completions
    assert "delete" in completions


def test_the_help_of_all_commands_is_there_without_importing_them() -> None:
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        assert _COMMANDS[name].summary == command.get_short_help_str(200)
    code = "import sys; from muster.gateway.cli.main import cli; cli(['--help'], standalone_mode=False); "
    show = "print(*(name for name in sys.modules if name.startswith('muster.')))"
    output = subprocess.run([sys.executable, "-c", code + show], capture_output=True, text=True, check=True).stdout
    assert "Start Muster and serve" in output
    assert "muster.gateway.cli.lifecycle.up" not in output.splitlines()[-1]
    assert "muster.actors.config" not in output.splitlines()[-1]
