"""``muster fault``: inject, list and clear faults, and run plans of them, on a cluster that allows it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import click

from muster.actors.runtime import terminal
from muster.actors.runtime.narrow import Column, Kind
from muster.actors.runtime.words import counted
from muster.gateway.cli import http
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.names import NAME
from muster.gateway.cli.output import print_json, print_table, with_wide
from muster.gateway.cli.running import by_http
from muster.gateway.cli.suggestions import Commands

if TYPE_CHECKING:
    from muster.actors.faults import Fault
    from muster.actors.faults.plan import Step

F = TypeVar("F", bound=Callable[..., Any])
Connect = Callable[[], "FaultApi"]
_COLUMNS = (
    "ID",
    "ACTION",
    Column("ON", Kind.NAME),
    Column("WHEN", Kind.NAME, optional=True),
    Column("PHASE", optional=True),
    "MATCHED",
    "HITS",
    Column("EXPIRES (UTC)", optional=True),
)
_OPTIONS: dict[str, tuple[str, Any]] = {
    "actor": ("NAME", NAME),
    "group": ("GROUP", NAME),
    "member": ("MEMBER", NAME),
    "client_id": ("ID", NAME),
    "api": ("API", NAME),
    "topic": ("TOPIC", NAME),
    "partition": ("N", int),
    "gateway": ("N", NAME),
    "phase": ("before|after", NAME),
    "error": ("ERROR", NAME),
    "delay_ms": ("MS", int),
    "speed": ("FRACTION", float),
    "expires_ms": ("MS", int),
}
"""Fields of a fault with options of their own: the value's placeholder, and its type."""


@click.group(
    cls=Commands,
    short_help="Inject faults into a test cluster.",
    epilog="Example: muster fault kill --group orders",
)
def fault() -> None:
    """Inject faults into a cluster started with fault.injection.enable=true, to test its clients."""


def on_cluster(command: F) -> F:
    """Add options that name the cluster; ``connect()`` gives the command its fault API. A FaultError becomes one
    line."""

    @wraps(command)
    def with_client(directory: Path, address: str | None, http_urls: tuple[str, ...], **given: Any) -> Any:
        from muster.actors.faults.errors import FaultError

        try:
            return command(lambda: _api(directory, address, http_urls), **given)
        except FaultError as error:
            raise CliError(str(error)) from error

    option = click.option(
        *("--http", "http_urls"),
        type=NAME,
        metavar="URL",
        multiple=True,
        help="HTTP address of a gateway, instead of --storage.",
    )
    return by_http(option(with_client))  # type: ignore[return-value]


class FaultApi:
    """The fault API of one cluster. Its methods raise FaultError, UnknownTarget among them."""

    def __init__(self, gateways: Callable[[], Iterable[http.GatewayUrl]]) -> None:
        """Take ``gateways()``, the likeliest first."""
        self._gateways = gateways

    def inject(self, fault: Fault) -> str:
        """Inject it. Returns its id."""
        return str(self._send("POST", "/v1/faults", fault.to_json())["id"])

    def faults(self) -> list[dict[str, Any]]:
        """Return the faults in force."""
        found: list[dict[str, Any]] = self._send("GET", "/v1/faults")["faults"]
        return found

    def clear(self, fault_id: str | None = None) -> list[str]:
        """End the fault, or all faults. Returns the ids of those that ended."""
        path = "/v1/faults" if fault_id is None else f"/v1/faults/{quote(fault_id, safe='')}"
        cleared: list[str] = self._send("DELETE", path)["cleared"]
        return cleared

    def _send(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        from muster.actors.faults import FaultError, UnknownTarget

        try:
            return http.send(self._gateways(), method, path, body)
        except http.HttpError as error:
            raise (UnknownTarget if error.status == HTTPStatus.NOT_FOUND else FaultError)(error.message) from error
        except http.NoHttpResponse as error:
            raise FaultError(error.message) from error


def _api(directory: Path, address: str | None, http_urls: tuple[str, ...]) -> FaultApi:
    given = tuple(http.GatewayUrl(url) for urls in http_urls for url in urls.split(","))
    return FaultApi(lambda: given or http.gateways(directory, address))


def _fields(command: F) -> F:
    """Add an option for every field of a fault."""
    from muster.actors.faults.model import FIELDS

    for name, (metavar, kind) in reversed(_OPTIONS.items()):
        option = f"--{name.replace('_', '-')}"
        command = click.option(option, name, metavar=metavar, type=kind, help=FIELDS[name])(command)
    return command


@fault.command(
    short_help="Inject a fault.",
    epilog="Example: muster fault inject error --api Heartbeat --error NOT_COORDINATOR --once",
)
@click.argument("action", type=NAME)
@_fields
@click.option("--once", is_flag=True, help="Only the first request that matches.")
@click.option("--nth", metavar="N", type=int, help="Only the n-th request that matches, over the whole cluster.")
@click.option("--probability", metavar="P", type=float, help="Each request that matches with this probability.")
@click.option("--seed", metavar="S", type=int, help="Seed of --probability: the same seed repeats the same draws.")
@on_cluster
def inject(
    connect: Connect,
    action: str,
    once: bool,
    nth: int | None,
    probability: float | None,
    seed: int | None,
    **fields: Any,
) -> None:
    """Inject a fault and print its id. ACTION is error, no-answer, drop, delay or close for requests; kill, pause,
    continue or slow for an actor. A request must match all given scopes. docs/faults.md describes what clients see.
    """
    from muster.actors.faults import Fault

    fields = {name: value for name, value in fields.items() if value is not None}
    if (when := _when(once, nth, probability, seed)) is not None:
        fields["when"] = when
    wanted = Fault(action, **fields)
    terminal.line(connect().inject(wanted))


def _when(once: bool, nth: int | None, probability: float | None, seed: int | None) -> Any:
    given = [name for name, value in (("--nth", nth), ("--probability", probability)) if value is not None]
    given += ["--once"] * once
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} exclude each other")
    if (probability is None) != (seed is None):
        raise click.UsageError("--probability and --seed go together")
    if probability is not None:
        return {"probability": probability, "seed": seed}
    return {"nth": nth} if nth is not None else "once" if once else None


@fault.command("list", short_help="Show the faults that are in force.", epilog="Example: muster fault list --json")
@with_wide
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@on_cluster
def list_faults(connect: Connect, as_json: bool) -> None:
    """Show the faults in force, how many requests each matched, and on how many it acted."""
    found = connect().faults()
    if as_json:
        print_json(found)
        return
    hits = counted(sum(one["hits"] for one in found), "hit")
    print_table(_COLUMNS, [_row(one) for one in found], f"{counted(len(found), 'fault')}, {hits}" if found else None)
    if not found:
        terminal.line("no fault is in force", err=True)


def _row(one: dict[str, Any]) -> tuple[Any, ...]:
    from muster.gateway.cli.times import utc

    fields = dict(one["fault"])
    action, when, phase = fields.pop("action"), fields.pop("when", "always"), fields.pop("phase", "before")
    fields.pop("expires_ms", None)
    expires_at_ms = one["expires_at_ms"]
    is_of_actor = "actor" in one
    return (
        one["id"],
        action,
        one["actor"] if is_of_actor else " ".join(f"{name}={value}" for name, value in fields.items()) or "everything",
        None if is_of_actor else when if isinstance(when, str) else json.dumps(when),
        None if is_of_actor else phase,
        one["matched"],
        one["hits"],
        None if expires_at_ms is None else utc(expires_at_ms),
    )


@fault.command(short_help="End faults.", epilog="Example: muster fault clear f-3")
@click.argument("fault_id", type=NAME, metavar="[ID]", required=False)
@on_cluster
def clear(connect: Connect, fault_id: str | None) -> None:
    """End the fault with the given ID, or all: paused actors continue, connections without a response close."""
    for ended in connect().clear(fault_id):
        terminal.line(ended)


@fault.command(short_help="Run a plan file.", epilog="Example: muster fault run outage.yaml")
@click.argument("plan", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@on_cluster
def run(connect: Connect, plan: Path) -> None:
    """Run the steps of a plan at their times, and print each one when it is done. PLAN is a YAML file; it is validated
    completely before the first step. An interrupted plan clears its faults.
    """
    from muster.actors.faults import plan as plans

    with _naming(plan):
        checked = plans.Plan.read(plan)

    def show(step: Step, result: str) -> None:
        terminal.line(f"{step.at_ms / 1000:9.3f} s  {step}  {result}")

    plans.run(checked, connect(), show)


@contextmanager
def _naming(plan: Path) -> Iterator[None]:
    """Name the file in errors of a plan."""
    from muster.actors.faults import InvalidFault

    try:
        yield
    except InvalidFault as error:
        raise CliError(f"{plan}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{plan} cannot be read: {error}") from error


def _actor_command(name: str, short_help: str, text: str, *more: Callable[[Any], Any]) -> None:
    """Add ``muster fault NAME [ACTOR] [--group G]``."""

    def command(connect: Connect, actor: str | None, group: str | None, **fields: Any) -> None:
        from muster.actors.faults import Fault

        given = {field: value for field, value in fields.items() if value is not None}
        wanted = Fault(name, actor=actor, group=group, **given)
        terminal.line(connect().inject(wanted))

    command.__doc__ = text
    decorated: Any = on_cluster(command)
    for option in more:
        decorated = option(decorated)
    group_option = click.option("--group", type=NAME, metavar="GROUP", help="The offsets actor that owns this group.")
    argument = click.argument("actor", type=NAME, metavar="[ACTOR]", required=False)
    fault.command(name, short_help=short_help, epilog=f"Example: muster fault {name} offsets-9")(
        argument(group_option(decorated))
    )


_EXPIRES = click.option("--expires-ms", metavar="MS", type=int, help="Duration after which the fault ends.")
_ACTOR_TEXT = "ACTOR is its name in muster status, as offsets-9, log-0, gateway-2 or controller."
_actor_command("kill", "Kill an actor's process.", f"Send SIGKILL to an actor's process. {_ACTOR_TEXT}")
_actor_command(
    "pause",
    "Pause an actor's process.",
    f"Send SIGSTOP to an actor's process, until it is continued or cleared. {_ACTOR_TEXT}",
    _EXPIRES,
)
_actor_command(
    "continue",
    "Continue a paused or slowed actor.",
    f"Send SIGCONT to an actor's process, and end its pause and slow faults. {_ACTOR_TEXT}",
)
_actor_command(
    "slow",
    "Slow an actor's process down.",
    f"Let an actor's process run only a fraction of the time, by SIGSTOP and SIGCONT. {_ACTOR_TEXT}",
    _EXPIRES,
    click.option(
        "--speed",
        metavar="FRACTION",
        type=float,
        default=0.1,
        show_default=True,
        help="Fraction of the time that the process runs.",
    ),
)
