"""The errors that a command shows its user when it cannot continue."""

from __future__ import annotations

import click

from muster.gateway.client.errors import MusterError


class CliError(click.ClickException, MusterError):  # type: ignore[misc]  # click says that message is final
    """One line for the user: the problem and its remedy. The command ends with exit code 1."""

    exit_code = 1


class StopRequested(BaseException):
    """SIGINT or SIGTERM was received. Not an Exception, so that no handler in between swallows it."""
