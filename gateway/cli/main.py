"""The ``muster`` command: Muster's operations from a shell.

stdout has results only; progress, logs and errors go to stderr. An error is one line, ``muster: ...``.
"""

from __future__ import annotations

import logging
import os
import sys

import click

from muster.actors.runtime import terminal
from muster.actors.tables.arrow import without_numpy
from muster.gateway.cli.errors import StopRequested
from muster.gateway.cli.lazy import Command as _Command
from muster.gateway.cli.lazy import LazyCommands
from muster.gateway.cli.ray.without_iri_grammar import without_iri_grammar
from muster.gateway.cli.suggestions import with_verbose_first

_COMMANDS = {
    "up": _Command("lifecycle.up:up", "Start Muster and serve until SIGINT or SIGTERM."),
    "down": _Command(
        "lifecycle.down:down",
        "Stop the muster up of a storage directory, and wait until it has ended.",
    ),
    "status": _Command(
        "lifecycle.status:status",
        "Show nodes and actors: where each actor runs, its pid and its state.",
    ),
    "doctor": _Command(
        "doctor.commands:doctor",
        "Check this machine, the configuration and a running Muster, and say how to mend each problem.",
    ),
    "backup": _Command(
        "backup.commands:backup", "Copy everything that a Muster has acknowledged to the new directory TARGET."
    ),
    "restore": _Command(
        "backup.commands:restore_", "Create a storage directory, and the nodes in ZooKeeper, from the backup SOURCE."
    ),
    "drain": _Command("lifecycle.drain:drain", "Move all of Muster's actors off a node, and place no more there."),
    "groups": _Command("groups.commands:groups", "List, describe and change consumer groups."),
    "events": _Command("events:events", "Show rebalances as they end, and faults and actors that come and go."),
    "topics": _Command("topics:topics", "List, create, alter, delete and describe topics, and send and show messages."),
    "user": _Command("security.user:user", "List, add and remove users that may log in."),
    "acls": _Command("security.acls:acls", "List, add and remove ACLs: the rights of clients."),
    "quotas": _Command("security.quotas:quotas", "List, set and remove quotas: limits on the load by clients."),
    "mapping": _Command("mapping:mapping", "Show, check and repair the client-to-group mapping."),
    "audit-log": _Command(
        "security.audit_log:audit_log",
        "Show who changed topics, configs, offsets, groups, ACLs, quotas, users and faults, or tried to.",
    ),
    "token": _Command("security.token:token", "Add and remove bearer tokens of the HTTP port."),
    "zookeeper": _Command(
        "security.zookeeper:zookeeper", "Restrict or open access to Muster's ZooKeeper nodes, or replace a server."
    ),
    "log": _Command("storage.log:log", "Check and show stored data: record batches, offsets, groups."),
    "storage": _Command("storage.check:storage", "Check a storage directory, or a bucket."),
    "tables": _Command("storage.tables:tables", "List, check and compact the tables for analysis."),
    "attribution-audit": _Command(
        "attribution_audit:attribution_audit", "Compare the bytes that commits imply with those attributed to groups."
    ),
    "capture": _Command(
        "capture:capture",
        "Relay Kafka connections to a broker, Muster or Kafka, and write each request and response to a file.",
    ),
    "fault": _Command("fault:fault", "Inject faults into a test cluster."),
    "spark": _Command("spark.commands:spark", "Analyse groups from the tables, with Spark."),
    "report": _Command("spark.report:report", "Write a page with tables and plots of the groups."),
}

_FORMER_NAMES = {"administration": "audit-log", "audit": "attribution-audit"}
"""Old names, which still run, but are not in help, completion or suggestions."""

_NO_ARGUMENTS: type[click.UsageError] | tuple[()] = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""Error whose message is the help. It does not exist before click 8.2, where the help was written at once."""


def _print_version(context: click.Context, _: click.Parameter, is_requested: bool) -> None:
    if not is_requested:
        return
    from muster.gateway.cli.distribution import installed_version  # its import takes long

    terminal.line(f"muster, version {installed_version() or 'from a checkout that is not installed'}")
    context.exit()


@click.group(
    cls=LazyCommands,
    lazy=_COMMANDS,
    former_names=_FORMER_NAMES,
    epilog="""Example: muster up --port 9092

    \b
    Completion with Tab: put your shell's line into its file:
      bash: eval "$(_MUSTER_COMPLETE=bash_source muster)"       (~/.bashrc)
      zsh:  eval "$(_MUSTER_COMPLETE=zsh_source muster)"        (~/.zshrc)
      fish: _MUSTER_COMPLETE=fish_source muster | source
            (~/.config/fish/config.fish)
    """,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("-v", "--verbose", is_flag=True, help="Debug log and tracebacks, on stderr.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def cli(verbose: bool) -> None:
    """Run Kafka topics and consumer groups on a Ray cluster."""
    handler = logging.StreamHandler()
    handler.setFormatter(terminal.LogFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.DEBUG if verbose else logging.WARNING, handlers=[handler])


def main() -> None:
    """Run the command and end the process. Exit code 0, 1 (it failed), 2 (wrong usage) or 130 (interrupted)."""
    _use_utf8()
    terminal.guard()
    without_iri_grammar()
    without_numpy(own_allocator=True)
    sys.exit(_run(sys.argv[1:]))


def _use_utf8() -> None:
    """Restart in UTF-8 mode (PEP 540) if the locale has another encoding; child processes inherit it.

    Names on the command line and in files are UTF-8, as in Kafka, and Ray fails on arguments that the locale cannot
    decode. Output keeps the locale's encoding.
    """
    if sys.flags.utf8_mode or sys.getfilesystemencoding() == "utf-8":
        return
    if sys.stdout is not None:
        os.environ.setdefault("PYTHONIOENCODING", sys.stdout.encoding)
    os.environ["PYTHONUTF8"] = "1"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _run(arguments: list[str]) -> int:
    arguments = with_verbose_first(arguments)
    verbose = arguments[:1] == ["-v"]
    try:
        code = cli.main(args=arguments, prog_name="muster", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except _NO_ARGUMENTS as error:
        terminal.text(error.format_message(), err=True)
        return error.exit_code
    except click.UsageError as error:
        return _fail(_usage(error, arguments), error.exit_code)
    except click.ClickException as error:
        if verbose:
            logging.getLogger(__name__).debug("the error came from here", exc_info=error)
        return _fail(error.format_message(), error.exit_code)
    except click.exceptions.Exit as end:
        return end.exit_code
    except (click.Abort, KeyboardInterrupt, StopRequested):
        return _fail("interrupted", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if verbose:
            raise
        text = " ".join(str(error).split()) or "no further text"
        return _fail(f"unexpected {type(error).__name__}: {text}; muster -v shows where", 1)


def _usage(error: click.UsageError, arguments: list[str]) -> str:
    """Return the error in one line: click's own has lists with a line for each item."""
    command = error.ctx.command_path if error.ctx else "muster"
    instead = None
    if isinstance(error, click.NoSuchOption):
        from muster.gateway.cli.kafka_options import remedy

        instead = remedy(error, arguments)
    text = " ".join(_sentence(error.format_message()).split())
    return f"{' '.join(filter(None, (text, instead)))} See: {command} --help"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _fail(text: str, code: int) -> int:
    from muster.gateway.cli.output import error_line

    error_line(text)
    return code


if __name__ == "__main__":
    main()
