"""``python -m benchmarks``: all benchmarks as one command. ``make bench`` runs it."""

from __future__ import annotations

from importlib import import_module

import click

_COMMANDS = {
    "kafka": "comparison.command:kafka",
    "rows": "comparison.command:rows",
    "diff": "comparison.command:diff",
    "groups": "groups:main",
    "commands": "commands:main",
    "console": "console:main",
    "produce-checks": "produce_checks:main",
    "log": "log:main",
    "wal": "wal:main",
    "lag": "lag:main",
    "mapping": "mapping:main",
    "attribution": "attribution.__main__:main",
    "path": "path.command:main",
    "arrow": "arrow:main",
    "pool": "pool:main",
    "ray": "ray_internals:main",
    "fetch-cost": "fetching.cost:main",
    "fetch-sessions": "fetching.sessions:main",
    "spark": "spark.scale:main",
    "spark-beside": "spark.beside:main",
    "spark-duckdb": "spark.beside_duckdb:main",
}
"""Module and function of each command; a module is only loaded when its command runs."""


class Benchmarks(click.Group):
    """Take any argument that is not the name of a command as the name of a row of ``kafka``; nothing means all its
    rows."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, function = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(f"benchmarks.{module}"), function)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in _COMMANDS and args[0] != "--help"):
            args = ["kafka", *args]
        return super().parse_args(ctx, args)


@click.command(cls=Benchmarks, no_args_is_help=False)
def main() -> None:
    """Measure Muster side by side with Apache Kafka, and by itself."""


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
