"""A Muster, clients of it, the console in a process of its own, and Debian's Chromium."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

from tests.muster_process import Muster, eventually

HOSTILE = "<img src=x onerror=alert(1)>`${alert(2)}{{alert(3)}}"
"""Name of a group and of a client that would be code in HTML, JavaScript and Vue's templates."""
TOPIC = "orders"


@pytest.fixture(scope="package")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """Two gateways, with fault injection."""
    properties = {"group.initial.rebalance.delay.ms": "300", "fault.injection.enable": "true", "num.partitions": "4"}
    properties |= {"http.changes.enable": "true", "console.enable": "true"}
    with Muster(tmp_path_factory.mktemp("muster") / "storage", properties=properties) as running:
        yield running


@dataclass
class Member:
    """A consumer that polls in a thread until it is stopped."""

    bootstrap: str
    group: str
    client_id: str
    topic: str = TOPIC
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> Member:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def _run(self) -> None:
        config = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "client.id": self.client_id,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
        }
        consumer = Consumer(config)
        consumer.subscribe([self.topic])
        while not self._stop.is_set():
            consumer.poll(0.2)
        consumer.close()

    def stop(self) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join()


@pytest.fixture(scope="package")
def groups(muster: Muster) -> Iterator[list[str]]:
    """Two groups that consume, one with a hostile name."""
    producer = Producer({"bootstrap.servers": muster.bootstrap})
    for number in range(200):
        producer.produce(TOPIC, json.dumps({"id": number}), key=str(number))
    producer.flush()
    members = [Member(muster.bootstrap, name, f"{name}-0").start() for name in ("billing", HOSTILE)]
    yield [member.group for member in members]
    for member in members:
        member.stop()


@contextmanager
def serving(gateways: tuple[str, ...], log: Path) -> Iterator[str]:
    """Serve the console for these gateways. Yields its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    urls = [word for url in gateways for word in ("--gateway", url)]
    command = [sys.executable, "-m", "muster.gateway.console", "--port", str(port), *urls]
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            eventually(
                lambda: urllib.request.urlopen(f"{url}/healthz").status, lambda status: status == 200, "the start"
            )
            yield url
        finally:
            process.terminate()
    assert "Traceback" not in log.read_text()


@pytest.fixture(scope="package")
def console(muster: Muster, groups: list[str]) -> Iterator[str]:
    """URL of the cluster's console."""
    yield console_of(muster)
    assert "Traceback" not in (muster.storage / "run" / "log" / "console.log").read_text()


def console_of(muster: Muster) -> str:
    """Return the URL to which the gateways lead, once the console serves."""

    def found() -> str:
        with urllib.request.urlopen(muster.ready["console"]) as response:
            return str(response.url).rstrip("/")

    return eventually(found, lambda url: url != muster.ready["console"].rstrip("/"), "a redirect to the console")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium is not None, "these tests need Debian's chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


Open = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser, console: str) -> Iterator[Open]:
    """Return what opens a path of the console; at the end there must be no error in any page, nor a dialog."""
    problems: list[str] = []
    contexts = []

    def open_path(path: str, width: int = 1280, scheme: str = "light", url: str = "") -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)

        def dismiss(dialog: Dialog) -> None:
            problems.append(f"dialog: {dialog.message}")
            dialog.dismiss()

        page.on("dialog", dismiss)
        page.goto(f"{url or console}{path}")
        page.wait_for_selector("h1")
        return page

    yield open_path
    for context in contexts:
        context.close()
    assert problems == []
