"""``python -m tests.fuzz --seed S --frames N``: hostile clients against a gateway with the real actors, or a cluster.

It prints what was sent, the memory of the process, and the times of a client that behaves, alone and beside the attack,
by turns. Exit code 1 if the log has an error, a traceback or a lost actor, if a valid request got no response, if the
client that behaves was refused, or if memory grew. The frames before a problem are kept; ``--replay FILE`` sends them
again.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import ssl
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import uvloop

from tests.fuzz import corpus
from tests.fuzz.attack import Attack, Totals, Unanswered
from tests.fuzz.canary import Second, seconds
from tests.fuzz.child import Child
from tests.fuzz.frames import Generator
from tests.fuzz.login import PLAIN, SCRAM
from tests.fuzz.measuring import PHASE_S, Measuring, compared
from tests.fuzz.quotas import ATTACKER, Quotas, quotas
from tests.fuzz.target import AUTHORITY_FILE, PASSWORD, USER, prepare
from tests.fuzz.values import Values
from tests.gateway.serving import Client

BEFORE_LOGIN = (17, 18, 36)
WARM_UP_S = 20.0
MAX_GROWTH_BYTES = 150 << 20
"""From the end of the warm-up. Producers, groups and fetch sessions that the frames may begin are far fewer."""
_LOOK_S = 5.0


class Run:
    """One attack."""

    def __init__(
        self,
        host: str,
        ports: dict[str, int],
        seed: int,
        target: Child | None,
        folder: Path,
        options: Sequence[str],
        quotas: Quotas,
    ) -> None:
        """``options``: those of the target. ``quotas``: of the attackers."""
        self._host = host
        self._quotas = quotas
        self._tls = None
        if "--tls" in options:
            self._tls = ssl.create_default_context(cafile=folder / AUTHORITY_FILE)
        self._ports = ports
        self._target = target
        self._folder = folder
        self.problems: list[str] = []
        self._over = False
        with Client(ports["plain"], host=host) as client:
            ids = prepare(client)
        inside, outside = (12, 4) if {"--authorizer", "--tls"} & set(options) else (4, 12)
        self.attacks = [self._attack(seed, "plain", ids, outside, None)]
        if "secured" in ports:
            self.attacks += [
                self._attack(seed + 1_000_003, "secured", ids, inside - 1, (USER, PASSWORD)),
                self._attack(seed + 4_000_003, "secured", ids, 1, (USER, PASSWORD), mechanism=PLAIN),
                self._attack(seed + 2_000_003, "secured", ids, 2, None, BEFORE_LOGIN),
                self._attack(seed + 3_000_003, "secured", ids, 1, None),
            ]

    def _attack(
        self,
        seed: int,
        listener: str,
        ids: list[Any],
        lines: int,
        user: tuple[str, str] | None,
        apis: tuple[int, ...] | None = None,
        mechanism: str = SCRAM,
    ) -> Attack:
        values = Values(ids)
        frames = iter(Generator(seed, values, apis))
        tls = self._tls if listener == "secured" else None
        port = self._ports[listener]
        attack = Attack(self._host, port, frames, values, user=user, mechanism=mechanism, tls=tls, lines=lines)
        if listener == "plain":
            attack.members_seed = seed
        if self._quotas.entries():
            attack.address = ATTACKER
        return attack

    @property
    def totals(self) -> Totals:
        return Totals.of(attack.totals for attack in self.attacks)

    async def go(
        self, frames: int, limit_s: float, on_warm: Callable[[], None], measuring: Measuring | None = None
    ) -> None:
        """Attack with so many frames, or for that long (0: however long they take). Problems are in ``problems``.

        Quotas begin when the attack is warm, and so does ``measuring``: all versions of all APIs have been used then.
        """
        with ExitStack() as limited:

            def limit() -> None:
                limited.enter_context(quotas(self._host, self._ports["plain"], self._quotas))
                on_warm()

            await self._go(frames, limit_s, limit, measuring)

    async def _go(self, frames: int, limit_s: float, on_warm: Callable[[], None], measuring: Measuring | None) -> None:
        began_s, is_warm = time.monotonic(), False
        rounds: asyncio.Task[None] | None = None
        tasks: list[asyncio.Task[Any]]
        tasks = [asyncio.create_task(attack.run(lambda: self._over)) for attack in self.attacks]
        while not self._over:
            done, _ = await asyncio.wait(tasks, timeout=_LOOK_S, return_when=asyncio.FIRST_EXCEPTION)
            spent_s = time.monotonic() - began_s
            if not is_warm and spent_s > WARM_UP_S:
                is_warm = True
                on_warm()
                if measuring is not None:
                    rounds = asyncio.create_task(measuring.rounds(self.attacks))
            self._look()
            failed = rounds is not None and rounds.done() and rounds.exception() is not None
            is_enough = self.totals.sent >= frames or spent_s > (limit_s or spent_s)
            self._over = bool(done) or bool(self.problems) or failed or is_enough
        if measuring is not None:
            measuring.end(self.attacks)
        if rounds is not None:
            rounds.cancel()
            tasks.append(rounds)
        if self._quotas.entries():  # what is left of their batches would take long
            for task in tasks:
                task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, BaseExceptionGroup | Unanswered | OSError):
                self.problems.append(f"{result!r}: {getattr(result, 'exceptions', '')}")
        self._look()

    def _look(self) -> None:
        if self._target is not None and (found := self._target.report()):
            self.problems += found
            for number, attack in enumerate(self.attacks):
                corpus.write(self._folder / f"frames-{number}.bin", list(attack.recent))


@click.command()
@click.option("--seed", default=1, show_default=True, help="Which frames; what responses teach is not fixed by it.")
@click.option("--frames", default=1_000_000, show_default=True, help="How many; the warm-up's are among them.")
@click.option("--minutes", default=0.0, help="At most this long.")
@click.option("--bootstrap-server", help="HOST:PORT of a running cluster instead of a gateway of its own.")
@click.option("--authorizer", is_flag=True, help="With ACLs; most clients have a few rights.")
@click.option("--tls", is_flag=True, help="With TLS for those clients.")
@click.option("--held", is_flag=True, help="Hold bad connections, as by default, and so send few frames.")
@click.option("--replay", type=click.Path(exists=True, path_type=Path), help="Send the frames of a file, and end.")
@click.option("--elsewhere", is_flag=True, help="Attack another gateway first: the same load, but not on this one.")
@click.option("--request-percentage", type=float, help="A quota of each user.")
@click.option("--connection-rate", type=float, help="A quota of the attackers' address, in connections per second.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where the log and found frames go, and stay.")
def main(
    seed: int,
    frames: int,
    minutes: float,
    bootstrap_server: str | None,
    authorizer: bool,
    tls: bool,
    held: bool,
    replay: Path | None,
    elsewhere: bool,
    request_percentage: float | None,
    connection_rate: float | None,
    folder: Path | None,
) -> None:
    """Attack, and say what came of it."""
    place = folder or Path(tempfile.mkdtemp(prefix="muster-fuzz-"))
    place.mkdir(parents=True, exist_ok=True)
    target = None
    given = {"--authorizer": authorizer, "--tls": tls, "--held": held}
    options = [name for name, is_given in given.items() if is_given]
    if options and bootstrap_server is not None:
        raise click.UsageError("a running cluster has its own authorizer, TLS and delay")
    host, ports = "127.0.0.1", {}
    if bootstrap_server is None:
        target = Child("tests.fuzz.target", str(place), *options)
        ports = target.ready
    else:
        host, _, port = bootstrap_server.rpartition(":")
        ports = {"plain": int(port)}
    try:
        if replay is not None:
            problems = _replayed(host, ports["plain"], replay, target)
        else:
            limits = Quotas(request_percentage, connection_rate)
            run = Run(host, ports, seed, target, place, options, limits)
            other = (place / "elsewhere", options) if elsewhere else None
            problems = _attacked(run, host, ports["plain"], frames, minutes * 60, target, other)
    finally:
        if target is not None:
            target.stop()
    for problem in problems[:20]:
        click.echo(f"fuzz: {problem}")
    if problems:
        click.echo(f"fuzz: FAILED with seed {seed}; the log and the frames before are in {place}")
        sys.exit(1)
    if folder is None:
        shutil.rmtree(place)


def _attacked(
    run: Run,
    host: str,
    port: int,
    frames: int,
    limit_s: float,
    target: Child | None,
    elsewhere: tuple[Path, list[str]] | None,
) -> list[str]:
    """``elsewhere``: folder and options of another gateway that is attacked first."""
    canary = Child("tests.fuzz.canary", host, str(port))
    measuring = Measuring(canary)
    time.sleep(PHASE_S)
    measuring.was_alone()
    others = None if elsewhere is None else _beside_attack_elsewhere(canary, *elsewhere)
    warm_bytes: list[int] = []

    def on_warm() -> None:
        warm_bytes.extend([target.rss_bytes] if target is not None else [])

    began_s = time.monotonic()
    try:
        uvloop.run(run.go(frames, limit_s, on_warm, measuring))
    except ChildProcessError as error:
        run.problems.append(str(error))
    duration_s = time.monotonic() - began_s
    canary.stop()
    totals = run.totals
    click.echo(
        f"fuzz: {totals.sent:,} frames in {duration_s:.0f} s, {len(totals.by_api)} APIs: {totals.answered:,} answered, "
        f"{totals.refused:,} connections closed by the service, {totals.waited:,} by the client after waiting; "
        f"{totals.connections:,} connections; {totals.of_members:,} answered to members that shared one"
    )
    for line in measuring.report():
        click.echo(f"fuzz: canary {line}")
    if others is not None:
        click.echo(
            f"fuzz: canary beside an attack on another gateway, then on this one: {compared(others, measuring.beside)}"
        )
    if target is not None and warm_bytes and not run.problems:
        (start_bytes,), end_bytes = warm_bytes, target.rss_bytes
        click.echo(f"fuzz: memory {start_bytes >> 20} MB after warm-up, {end_bytes >> 20} MB at the end")
        if end_bytes - start_bytes > MAX_GROWTH_BYTES:
            run.problems.append(f"memory grew by {(end_bytes - start_bytes) >> 20} MB")
    return run.problems


def _beside_attack_elsewhere(canary: Child, folder: Path, options: list[str]) -> list[Second]:
    """Return the canary's times under load on the machine: it shares no event loop with the attack."""
    folder.mkdir()
    other = Child("tests.fuzz.target", str(folder), *options)
    try:
        run = Run("127.0.0.1", other.ready, 1, other, folder, options, Quotas(None, None))
        uvloop.run(run.go(sys.maxsize, 2 * WARM_UP_S, lambda: canary.report()))
        return seconds(canary.report())
    finally:
        other.stop()


def _replayed(host: str, port: int, file: Path, target: Child | None) -> list[str]:
    with Client(port, host=host) as client:
        prepare(client)
    frames = corpus.read(file)
    problems: list[str] = []
    for frame in itertools.chain(frames):
        asyncio.run(corpus.send(host, port, [frame]))
        found = target.report() if target is not None else []
        problems += [f"{frame[:400]!r}: {each}" for each in found]
    click.echo(f"fuzz: {len(frames)} frames of {file} were sent again")
    return problems


if __name__ == "__main__":
    main()
