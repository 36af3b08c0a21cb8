"""``python -m tests.fuzz --seed S --frames N``: hostile clients against a gateway with the real actors, or a cluster.

It prints what was sent, the memory of the process, and the times of a client that behaves, before and during the
attack. Exit code 1 if the log has an error, a traceback or a lost actor, if a valid request got no response, if the
client that behaves was refused, or if memory grew. The frames before a problem are kept; ``--replay FILE`` sends them
again.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import psutil
import uvloop

from tests.fuzz import corpus
from tests.fuzz.attack import Attack, Totals, Unanswered
from tests.fuzz.canary import Quantiles, quantiles
from tests.fuzz.frames import Generator
from tests.fuzz.login import PLAIN, SCRAM
from tests.fuzz.quotas import ATTACKER, Quotas, quotas
from tests.fuzz.target import AUTHORITY_FILE, PASSWORD, USER, prepare
from tests.fuzz.values import Values
from tests.gateway.serving import Client

BEFORE_LOGIN = (17, 18, 36)
WARM_UP_S = 20.0
ALONE_S = 20.0
"""How long the client that behaves is measured alone, before the attack and again behind it, as one measurement."""
CALM_S = 10.0
"""From the end of the attack until then, groups of the attackers end."""
MAX_GROWTH_BYTES = 150 << 20
"""From the end of the warm-up. Producers, groups and fetch sessions that the frames may begin are far fewer."""
_LOOK_S = 5.0


class Child:
    """A process that prints a line of JSON when it is ready, and one for each line that it gets."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.ready = self._line()

    @property
    def rss_bytes(self) -> int:
        return int(psutil.Process(self._process.pid).memory_info().rss)

    def report(self) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._line()

    def _line(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ChildProcessError(f"{self._process.args!r} has ended with {self._process.wait()}")
        return json.loads(line)

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()


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
        inside, outside = (12, 4) if options else (4, 12)
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
        if self._quotas.entries():
            attack.address = ATTACKER
        return attack

    @property
    def totals(self) -> Totals:
        return Totals.of(attack.totals for attack in self.attacks)

    async def go(self, frames: int, seconds: float, on_warm: Callable[[], None]) -> None:
        """Attack with so many frames, or for that long (0: however long they take). Problems are in ``problems``.

        Quotas begin when the attack is warm: all versions of all APIs have been used then.
        """
        with ExitStack() as limited:

            def limit() -> None:
                limited.enter_context(quotas(self._host, self._ports["plain"], self._quotas))
                on_warm()

            await self._go(frames, seconds, limit)

    async def _go(self, frames: int, seconds: float, on_warm: Callable[[], None]) -> None:
        began_s, is_warm = time.monotonic(), False
        tasks = [asyncio.create_task(attack.run(lambda: self._over)) for attack in self.attacks]
        while not self._over:
            done, _ = await asyncio.wait(tasks, timeout=_LOOK_S, return_when=asyncio.FIRST_EXCEPTION)
            spent_s = time.monotonic() - began_s
            if not is_warm and spent_s > WARM_UP_S:
                is_warm = True
                on_warm()
            self._look()
            self._over = (
                bool(done) or bool(self.problems) or self.totals.sent >= frames or spent_s > (seconds or spent_s)
            )
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
    options = [name for name, given in (("--authorizer", authorizer), ("--tls", tls)) if given]
    if options and bootstrap_server is not None:
        raise click.UsageError("a running cluster has its own authorizer and TLS")
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


class Stolen:
    """What others on the host of this virtual machine take of its processors."""

    def __init__(self) -> None:
        self._before = psutil.cpu_times()

    def percent(self) -> float:
        """Since the last call, or since it was created."""
        before, self._before = self._before, psutil.cpu_times()
        spent_s = [now - then for now, then in zip(self._before, before, strict=True)]
        return float(100 * (self._before.steal - before.steal) / max(sum(spent_s), 0.001))


def _attacked(
    run: Run,
    host: str,
    port: int,
    frames: int,
    seconds: float,
    target: Child | None,
    elsewhere: tuple[Path, list[str]] | None,
) -> list[str]:
    """``elsewhere``: folder and options of another gateway that is attacked first."""
    canary = Child("tests.fuzz.canary", host, str(port))
    stolen = Stolen()
    time.sleep(ALONE_S)
    times_alone, stolen_alone = canary.report(), stolen.percent()
    others = None if elsewhere is None else _beside_attack_elsewhere(canary, *elsewhere)
    warm_bytes: list[int] = []

    def on_warm() -> None:
        canary.report()
        stolen.percent()
        warm_bytes.extend([target.rss_bytes] if target is not None else [])

    began_s = time.monotonic()
    try:
        uvloop.run(run.go(frames, seconds, on_warm))
        duration_s = time.monotonic() - began_s
        beside, stolen_beside = quantiles(canary.report()), stolen.percent()
        time.sleep(CALM_S)
        canary.report()
        stolen.percent()
        time.sleep(ALONE_S)
        times_alone, stolen_alone = times_alone + canary.report(), (stolen_alone + stolen.percent()) / 2
    except ChildProcessError as error:
        run.problems.append(str(error))
        duration_s, beside, stolen_beside = time.monotonic() - began_s, quantiles([]), stolen.percent()
    alone = quantiles(times_alone)
    canary.stop()
    totals = run.totals
    click.echo(
        f"fuzz: {totals.sent:,} frames in {duration_s:.0f} s, {len(totals.by_api)} APIs: {totals.answered:,} answered, "
        f"{totals.refused:,} connections closed by the service, {totals.waited:,} by the client after waiting; "
        f"{totals.connections:,} connections"
    )
    click.echo(
        f"fuzz: canary alone p50 {alone.p50:.2f} ms, p99 {alone.p99:.2f} ms ({alone.requests} requests); "
        f"beside the attack p50 {beside.p50:.2f} ms, p99 {beside.p99:.2f} ms, longest {beside.longest:.0f} ms "
        f"({beside.requests}); p99 ratio {beside.p99 / max(alone.p99, 0.001):.1f}"
    )
    click.echo(
        f"fuzz: others on the host took {stolen_alone:.1f} % of the machine's processors while the canary was alone, "
        f"{stolen_beside:.1f} % beside the attack"
    )
    if others is not None:
        click.echo(
            f"fuzz: canary beside an attack on another gateway p50 {others.p50:.2f} ms, p99 {others.p99:.2f} ms, "
            f"longest {others.longest:.0f} ms ({others.requests}); "
            f"p99 ratio to it {beside.p99 / max(others.p99, 0.001):.1f}"
        )
    if target is not None and warm_bytes and not run.problems:
        (start_bytes,), end_bytes = warm_bytes, target.rss_bytes
        click.echo(f"fuzz: memory {start_bytes >> 20} MB after warm-up, {end_bytes >> 20} MB at the end")
        if end_bytes - start_bytes > MAX_GROWTH_BYTES:
            run.problems.append(f"memory grew by {(end_bytes - start_bytes) >> 20} MB")
    return run.problems


def _beside_attack_elsewhere(canary: Child, folder: Path, options: list[str]) -> Quantiles:
    """What the canary sees of the load on the machine: it shares no event loop with the attack."""
    folder.mkdir()
    other = Child("tests.fuzz.target", str(folder), *options)
    try:
        run = Run("127.0.0.1", other.ready, 1, other, folder, options, Quotas(None, None))
        uvloop.run(run.go(sys.maxsize, 2 * WARM_UP_S, lambda: canary.report()))
        return quantiles(canary.report())
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
