"""The cases that fuzzing found, and a short search; ``make fuzz`` is the long one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest

from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.actors.wire.kafka import codec
from muster.gateway.listener.api import APIS
from muster.placement.zookeeper.client import connect
from tests.fuzz import corpus
from tests.fuzz.attack import Attack
from tests.fuzz.canary import Clock, Quantiles, Second, quantiles, undisturbed
from tests.fuzz.frames import Frame, Generator
from tests.fuzz.target import PASSWORD, USER, Problems, attacked, prepare
from tests.fuzz.values import Extremes, Values
from tests.gateway.serving import Serving

FRAMES = 4_000
SEED = 17
TOPIC_IDS = [UUID(int=1 << 100)]


class Target(NamedTuple):
    running: Serving
    secured_port: int
    topic_ids: list[UUID]
    problems: Problems


@pytest.fixture(scope="module")
def target(zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    root = connect(zookeeper.hosts, timeout_s=10)
    root.create("/fuzz")
    root.shut()
    zk = connect(f"{zookeeper.hosts}/fuzz", timeout_s=10)
    problems = Problems()
    logging.getLogger().addHandler(problems)
    try:
        with attacked(zk, tmp_path_factory.mktemp("fuzz")) as (running, secured_port):
            yield Target(running, secured_port, prepare(running.client), problems)
    finally:
        logging.getLogger().removeHandler(problems)
        zk.shut()


@pytest.mark.parametrize("case", corpus.cases(), ids=lambda case: case.name)
def test_found_cases_do_no_harm(target: Target, case: corpus.Case) -> None:
    asyncio.run(corpus.send("127.0.0.1", target.running.port, case.frames))
    assert not target.problems.found, case.found


def test_a_short_search_finds_nothing(target: Target) -> None:
    values = Values(target.topic_ids)
    frames = iter(Generator(SEED, values))
    plain = Attack("127.0.0.1", target.running.port, frames, values, members_seed=SEED)
    inside = Attack(
        "127.0.0.1", target.secured_port, iter(Generator(SEED + 1, values)), values, user=(USER, PASSWORD), lines=4
    )
    before = Attack("127.0.0.1", target.secured_port, iter(Generator(SEED + 2, values, (17, 18, 36))), values, lines=4)

    async def attack() -> None:
        await asyncio.gather(
            plain.run(lambda: plain.totals.sent > FRAMES),
            inside.run(lambda: inside.totals.sent > FRAMES / 4),
            before.run(lambda: before.totals.sent > FRAMES / 8),
        )

    asyncio.run(attack())
    assert not target.problems.found
    assert plain.totals.sent > FRAMES
    assert plain.totals.answered > FRAMES / 5
    assert plain.totals.of_members > FRAMES / 40
    assert inside.totals.answered > FRAMES / 20
    assert set(plain.totals.by_api) > {0, 1, 3, 8, 11, 18, 22, 27}


def test_a_refused_frame_does_not_shield_those_behind_it(target: Target) -> None:
    """Two of five frames, the second and the fourth, close the connection; all five are looked at."""
    good = codec.encode_request(codec.API_VERSIONS, 0, 1, "fuzz", {})
    attack = Attack("127.0.0.1", target.running.port, iter(()), Values([]))
    frames = [Frame(18, 0, data, 1.0) for data in (good, b"\0\7\0\0\0\0\0\0", good, b"", good)]

    async def send() -> None:
        (await attack.send(frames)).abort()

    asyncio.run(send())
    totals = attack.totals
    assert (totals.sent, totals.answered, totals.refused, totals.connections) == (5, 3, 2, 3)


def test_a_paused_attack_sends_nothing(target: Target) -> None:
    attack = Attack("127.0.0.1", target.running.port, iter(()), Values([]))
    frame = Frame(18, 0, codec.encode_request(codec.API_VERSIONS, 0, 1, "fuzz", {}), 0.0)

    async def pause() -> None:
        attack.goes.clear()
        sending = asyncio.create_task(attack.send([frame]))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not attack.totals.connections
        attack.goes.set()
        (await sending).abort()

    asyncio.run(pause())
    assert attack.totals.sent == attack.totals.answered == 1


def test_a_seed_fixes_the_frames_and_every_version_is_among_them() -> None:
    frames = list(islice(Generator(3, Values(TOPIC_IDS)), 20_000))
    assert frames == list(islice(Generator(3, Values(TOPIC_IDS)), 20_000))
    assert frames[:100] != list(islice(Generator(4, Values(TOPIC_IDS)), 100))
    made = {(frame.api_key, frame.version) for frame in frames}
    cheap = {(api.key, version) for api in APIS.values() for version in api.versions}
    assert len(cheap - made) < 25
    right = [frame for frame in frames if not frame.spoil]
    assert len(right) > 1_000
    for frame in right:
        header = codec.decode_header(frame.data)
        codec.decode_request(header, frame.data)


def test_the_greatest_numbers_are_read_in_every_api_and_version() -> None:
    frames = [frame for frame in islice(Generator(7, Extremes(TOPIC_IDS)), 8_000) if not frame.spoil]
    assert len({(frame.api_key, frame.version) for frame in frames}) > 200
    for frame in frames:
        codec.decode_request(codec.decode_header(frame.data), frame.data)


def test_the_greatest_numbers_close_no_connection(target: Target) -> None:
    values = Extremes(target.topic_ids)
    right = (frame for frame in Generator(SEED, values) if not frame.spoil)
    attack = Attack("127.0.0.1", target.running.port, iter(right), values, patience_s=0.2)

    asyncio.run(attack.run(lambda: attack.totals.sent > FRAMES / 4))
    assert not target.problems.found
    assert attack.totals.refused == 0


def test_problems_of_a_log_are_noticed(caplog: pytest.LogCaptureFixture) -> None:
    problems = Problems()
    log = logging.getLogger("tests.fuzz.noticed")
    log.addHandler(problems)
    log.warning("connection closed: a bad frame")
    assert not problems.found
    log.warning("lost %s-%d", "log", 0)
    log.error("something")
    assert len(problems.found) == 2


def test_what_the_host_took_is_not_measured() -> None:
    measured = [Second(0.0, [1.0, 2.0]), Second(12.5, [90.0]), Second(1.0, [3.0])]
    assert quantiles(measured).longest == 90
    assert quantiles(undisturbed(measured)) == Quantiles(p50=2.0, p99=3.0, longest=3.0, requests=3)


def test_less_than_a_second_is_measured() -> None:
    clock = Clock()
    clock.add([1.0, 2.0])
    (second,) = clock.take()
    assert second.times == [1.0, 2.0]
    assert clock.take() == []


def test_kept_frames_are_read_again(tmp_path: Path) -> None:
    frames = list(islice(Generator(5, Values(TOPIC_IDS)), 50))
    corpus.write(tmp_path / "frames.bin", [frame.numbered(7) for frame in frames])
    assert [each[8:] for each in corpus.read(tmp_path / "frames.bin")] == [frame.data[8:] for frame in frames]


async def _says_nothing(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


def test_a_valid_request_that_is_not_answered_is_noticed() -> None:
    """A server that reads and says nothing."""

    async def attack() -> None:
        server = await asyncio.start_server(_says_nothing, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        silent = Attack("127.0.0.1", port, iter(()), Values([]), patience_s=0.01, sentinel_s=0.02)
        frame = Frame(18, 0, codec.encode_request(codec.API_VERSIONS, 0, 1, "fuzz", {}), 0.0)
        with pytest.raises(Exception, match="a request that is valid"):
            await silent.send([frame])
        assert silent.totals.waited == 1
        server.close()

    began_s = time.monotonic()
    asyncio.run(attack())
    assert time.monotonic() - began_s < 30
