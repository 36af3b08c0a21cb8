"""Queries in addition to Kafka's APIs, over a real internal socket."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from muster.actors.wire import envelope
from muster.actors.wire.channel import Channel, ChannelLost, NotSent, connect
from muster.actors.wire.envelope import Kind
from muster.actors.wire.questions import Questions
from muster.actors.wire.server import Peer, Server
from muster.placement.client import Context


class Actor:
    """Echoes Kafka frames, answers queries."""

    def __init__(self) -> None:
        self.questions = Questions()
        self.answers = self.questions.answers
        self.query = self.questions.query
        self.cancel = self.questions.cancel
        self.left = self.questions.left
        self.peers: list[Peer] = []

    def joined(self, peer: Peer) -> None:
        self.peers.append(peer)

    def request(self, peer: Peer, token: int, context: Context, frame: bytes) -> None:
        peer.reply(token, frame)


def run(tmp_path: Path, scenario: Callable[[Actor, Channel], Awaitable[None]]) -> None:
    async def main() -> None:
        actor = Actor()
        server = Server(actor, b"secret")
        endpoint = await server.start(node_id="here", host="127.0.0.1", path=tmp_path / "actor.sock")
        try:
            async with asyncio.timeout(20):
                channel = await connect(endpoint, "here", on_updates=None, on_lost=lambda: None)
                await scenario(actor, channel)
                channel.close()
        finally:
            await server.stop()

    asyncio.run(main())


async def raw(channel: Channel, data: bytes) -> dict[str, Any]:
    """The response to a QUERY of these bytes, which no Channel would send."""
    question = channel.ask({"ask": "never"})
    assert isinstance(await question, dict)
    answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    token = channel._await_answer(answer, envelope.read_answer)
    assert token is not None
    channel._out.put(envelope.token_head(Kind.QUERY, token), data)
    return await answer


def test_answers_at_once_and_later_find_their_questions(tmp_path: Path) -> None:
    async def scenario(actor: Actor, channel: Channel) -> None:
        gate = asyncio.Event()

        async def later(question: dict[str, Any]) -> dict[str, Any]:
            await gate.wait()
            return {"later": question["n"]}

        actor.answers |= {"now": lambda question: {"now": question["n"]}, "later": later}
        held = channel.ask({"ask": "later", "n": 1})
        assert await channel.ask({"ask": "now", "n": "g\ud800\n"}) == {"now": "g\ud800\n"}
        assert await channel.call(envelope.write_context("h", "c", "p"), b"frame") == b"frame"
        assert not held.done()
        gate.set()
        assert await held == {"later": 1}

    run(tmp_path, scenario)


def test_a_question_that_nobody_answers_is_refused(tmp_path: Path) -> None:
    async def scenario(actor: Actor, channel: Channel) -> None:
        actor.answers["known"] = lambda question: {}
        for name in ("other", None, 7, ["known"], "x" * 1000):
            (error,) = (await channel.ask({"ask": name})).values()
            assert error.startswith("unknown question"), name
            assert len(error) < 150
        for data in (b"[]", b'"known"', b"", b"{", b"\xff", b"[" * 100_000):
            (error,) = (await raw(channel, data)).values()
            assert error.startswith("unknown question"), data[:10]
        (error,) = (await raw(channel, b" " * (envelope.QUESTION_LIMIT_BYTES + 1))).values()
        assert "bytes" in error
        assert await channel.ask({"ask": "known"}) == {}

    run(tmp_path, scenario)


def test_what_an_answer_does_wrong_is_told_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(actor: Actor, channel: Channel) -> None:
        async def late(question: dict[str, Any]) -> dict[str, Any]:
            await asyncio.sleep(0)
            raise KeyError("group")

        actor.answers |= {
            "late": late,
            "raises": lambda question: {"n": 1 // 0},
            "not json": lambda question: {"what": object()},
            "nan": lambda question: {"lag": float("nan")},
        }
        with caplog.at_level(logging.ERROR):
            for name, told in {"late": "KeyError", "raises": "Zero", "not json": "TypeError", "nan": "Value"}.items():
                assert (await channel.ask({"ask": name}))["error"].startswith(told)
        assert len([record for record in caplog.records if record.exc_info]) == 4
        assert await channel.ask({"ask": "x"}) == {"error": "unknown question 'x'"}

    run(tmp_path, scenario)


def test_too_long_an_answer_is_an_error_and_the_connection_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(envelope, "ANSWER_LIMIT_BYTES", 100)

    async def scenario(actor: Actor, channel: Channel) -> None:
        actor.answers["long"] = lambda question: {"x": "y" * question["n"]}
        assert "limit is 100" in (await channel.ask({"ask": "long", "n": 93}))["error"]
        assert await channel.ask({"ask": "long", "n": 91}) == {"x": "y" * 91}

    run(tmp_path, scenario)


@pytest.mark.parametrize("question", [{"n": float("inf")}, {"n": object()}, {"n": "x" * envelope.QUESTION_LIMIT_BYTES}])
def test_what_is_no_question_is_not_asked(tmp_path: Path, question: dict[str, Any]) -> None:
    async def scenario(actor: Actor, channel: Channel) -> None:
        with pytest.raises((TypeError, ValueError)):
            channel.ask(question)

    run(tmp_path, scenario)


@pytest.mark.parametrize("how", ["the question is cancelled", "the gateway is gone"])
def test_an_answer_that_nobody_waits_for_is_cancelled(tmp_path: Path, how: str) -> None:
    async def scenario(actor: Actor, channel: Channel) -> None:
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def forever(question: dict[str, Any]) -> dict[str, Any]:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
            return {}

        actor.answers["forever"] = forever
        held = channel.ask({"ask": "forever"})
        await begun.wait()
        if how == "the question is cancelled":
            held.cancel()
        else:
            channel.close()
        await cancelled.wait()

    run(tmp_path, scenario)


def test_a_lost_actor_fails_its_questions(tmp_path: Path) -> None:
    async def scenario(actor: Actor, channel: Channel) -> None:
        begun = asyncio.Event()

        async def forever(question: dict[str, Any]) -> dict[str, Any]:
            begun.set()
            await asyncio.Event().wait()
            return {}

        actor.answers["forever"] = forever
        held = channel.ask({"ask": "forever"})
        await begun.wait()
        actor.peers[0].close()
        with pytest.raises(ChannelLost):
            await held
        with pytest.raises(NotSent):
            await channel.ask({"ask": "forever"})

    run(tmp_path, scenario)
