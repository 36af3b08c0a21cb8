"""``python -m benchmarks console``: what the console costs, and how soon it shows what happens.

Real groups of one member each send heartbeats; viewers are pages of Debian's Chromium. Rounds without and with viewers
take turns.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import click
import psutil
from playwright.async_api import Browser, Page, async_playwright

from benchmarks.cluster import Cluster, cpu_s, machine, pss_bytes
from benchmarks.many import CONNECTIONS, warm_up
from benchmarks.members import HEARTBEAT_INTERVAL_S, Heartbeats, Member
from benchmarks.report import Figures, output, output_options
from muster.actors.runtime.ray.processes import TITLE
from muster.placement.hashing import partition_for
from tests.raw_client import Connection, Errors, connect

PARTITIONS = 8
VIEWERS = 10
_FORMING_S = 300
_AT_ONCE = 500
"""Members that join at the same time; with all of them, some would wait for longer than a gateway lets them."""
_PAGE_MS = 60_000
_WATCHED = "watched"
_PROBES, _KILLS = 5, 3
_MOVED = "Heartbeat not_coordinator"
"""Response while the coordinator is down, as in Kafka; consumers look for it again."""


@click.command()
@click.option("--groups", "scales", multiple=True, type=int, default=(1_000, 10_000), show_default=True)
@click.option("--rounds", default=3, show_default=True, help="Rounds without viewers, and as many with them.")
@click.option("--seconds", default=20.0, show_default=True, help="Length of a round.")
@output_options
def main(scales: Sequence[int], rounds: int, seconds: float, json_file: Path | None, as_markdown: bool) -> None:
    """Measure processor time, memory and delays of the console."""
    figures = Figures()
    for groups in scales:
        with tempfile.TemporaryDirectory() as folder:
            properties = {"offsets.topic.num.partitions": str(PARTITIONS), "group.initial.rebalance.delay.ms": "0"}
            with Cluster(Path(folder), gateways=2, properties=properties) as cluster:
                asyncio.run(_measure(cluster, groups, rounds, seconds, figures))
    output(figures, machine(), json_file, as_markdown)


async def _measure(cluster: Cluster, groups: int, rounds: int, seconds: float, figures: Figures) -> None:
    part = f"{groups:,} groups"
    connections = await connect(cluster.bootstrap, min(CONNECTIONS, groups))
    await warm_up(connections, PARTITIONS)
    members, errors = await _formed(connections, groups)
    heartbeats = Heartbeats(members, errors)
    serving = {**cluster.actors("offsets"), **cluster.actors("gateway")}
    console = _process_of(f"{TITLE}ConsoleActor", cluster)
    figures.add(part, "memory of the console before the first viewer (PSS)", pss_bytes(console) / 2**20, "MiB")
    await asyncio.sleep(HEARTBEAT_INTERVAL_S)
    async with async_playwright() as playwright, AsyncExitStack() as ending:
        browser = await playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        ending.push_async_callback(browser.close)
        assert cluster.console is not None
        url = await asyncio.to_thread(_redirected, cluster.console)
        await _first_pages(browser, url, part, figures)
        await _costs(browser, url, console, serving, part, rounds, seconds, heartbeats, figures)
        figures.add(part, "memory of the console with an hour's curves begun (PSS)", pss_bytes(console) / 2**20, "MiB")
        await _delays(browser, url, connections, cluster, part, figures)
        moved = errors.pop(_MOVED, 0)
        figures.add(part, "heartbeats with another error than that of the kill", errors.total(), "", 0)
        figures.add(part, "heartbeats that the kill answered with NOT_COORDINATOR", moved, "")
    await heartbeats.stop()
    for connection in connections:
        connection.close()


async def _formed(connections: Sequence[Connection], groups: int) -> tuple[list[Member], Errors]:
    errors = Errors()
    members = [
        Member(connections[number % len(connections)], f"group-{number}", "orders", errors) for number in range(groups)
    ]
    turns = asyncio.Semaphore(_AT_ONCE)

    async def form(member: Member) -> None:
        async with turns:
            await member.alone()

    async with asyncio.timeout(_FORMING_S):
        await asyncio.gather(*(form(member) for member in members))
    return members, errors


def _process_of(title: str, cluster: Cluster) -> dict[str, psutil.Process]:
    processes = (psutil.Process(pid) for pid in cluster.family())
    found = [process for process in processes if " ".join(process.cmdline()).startswith(title)]
    return {title: found[0]}


def _redirected(url: str) -> str:
    with urllib.request.urlopen(url) as response:
        return str(response.url).rstrip("/")


async def _first_pages(browser: Browser, url: str, part: str, figures: Figures) -> None:
    """Measure how long the first pages take, from the request to rows that can be seen."""
    for path, name, seen in (("/", "overview", ".stats .stat"), ("/groups", "list of groups", ".ag-row .is-name")):
        page = await browser.new_page()
        began_s = time.perf_counter()
        await page.goto(f"{url}{path}")
        await page.wait_for_selector(seen, timeout=_PAGE_MS)
        figures.add(part, f"{name}, from the request to its content", time.perf_counter() - began_s, "s")
        await page.close()


async def _costs(
    browser: Browser,
    url: str,
    console: dict[str, psutil.Process],
    serving: dict[str, psutil.Process],
    part: str,
    rounds: int,
    seconds: float,
    heartbeats: Heartbeats,
    figures: Figures,
) -> None:
    """Measure processor time with and without viewers, in turns."""
    used: dict[int, list[tuple[float, float, int]]] = {0: [], 1: [], VIEWERS: []}
    for _ in range(rounds):
        for viewers in used:
            pages = [await _viewer(browser, url, number) for number in range(viewers)]
            await asyncio.sleep(HEARTBEAT_INTERVAL_S)
            before = cpu_s(serving), cpu_s(console), len(heartbeats.latencies_s)
            await asyncio.sleep(seconds)
            after = cpu_s(serving), cpu_s(console), len(heartbeats.latencies_s)
            used[viewers].append((after[0] - before[0], after[1] - before[1], after[2] - before[2]))
            for page in pages:
                await page.close()
    for viewers, found in used.items():
        of_serving, of_console, beats = (sum(values) for values in zip(*found, strict=True))
        total_s = seconds * rounds
        said = f"{viewers} viewers" if viewers != 1 else "1 viewer"
        figures.add(part, f"{said}: gateways and coordinators, for each heartbeat", of_serving / beats * 1e6, "us")
        figures.add(part, f"{said}: gateways and coordinators", of_serving / total_s * 100, "% of a core")
        figures.add(part, f"{said}: console", of_console / total_s * 100, "% of a core")


async def _viewer(browser: Browser, url: str, number: int) -> Page:
    page = await browser.new_page()
    await page.goto(f"{url}{('/', '/groups', '/cluster', '/group?name=group-0')[number % 4]}")
    await page.wait_for_selector("h1", timeout=_PAGE_MS)
    return page


async def _delays(
    browser: Browser, url: str, connections: Sequence[Connection], cluster: Cluster, part: str, figures: Figures
) -> None:
    """Measure how long after a rebalance, and after a kill, a page shows it, several times each."""
    errors = Errors()
    member = Member(connections[0], _WATCHED, "orders", errors)
    await member.alone()
    page = await browser.new_page()
    await page.goto(f"{url}/group?name={_WATCHED}")
    await page.wait_for_selector(".lane li", timeout=_PAGE_MS)
    took_s = []
    for number in range(_PROBES):
        entries = await page.locator(".lane li").count()
        await asyncio.sleep(number * 0.2)  # at any time of the console's rounds
        began_s = time.perf_counter()
        await member.alone()  # the leader joins again
        await page.wait_for_function(f"document.querySelectorAll('.lane li').length > {entries}", timeout=_PAGE_MS)
        took_s.append(time.perf_counter() - began_s)
    figures.add(part, "a rebalance, from the join to the page, longest", max(took_s), "s")
    names = dict.fromkeys(f"offsets-{partition_for(f'group-{number}', PARTITIONS)}" for number in range(PARTITIONS))
    kills = [await _kill(page, url, name, cluster) for name in list(names)[:_KILLS]]
    shown, served = (max(found) for found in zip(*kills, strict=True))
    figures.add(part, "a kill, until the page shows it, longest", shown, "s")
    figures.add(part, "a kill, until the page shows the next process, longest", served, "s")
    await page.close()


async def _kill(page: Page, url: str, name: str, cluster: Cluster) -> tuple[float, float]:
    """Kill that coordinator. Returns the seconds until the page shows it, and until it shows the next process."""
    await page.goto(f"{url}/cluster")
    row = f"[...document.querySelectorAll('tr')].find(each => each.innerText.startsWith('{name}'))"
    await page.wait_for_function(f"!!{row}", timeout=_PAGE_MS)
    pid = (await asyncio.to_thread(cluster.actors, "offsets"))[name].pid
    is_alive, is_next = f"{row}.innerText.includes('alive')", f"!{row}.innerText.includes('{pid}')"
    os.kill(pid, signal.SIGKILL)
    began_s = time.perf_counter()
    await page.wait_for_function(f"!{is_alive} || {is_next}", timeout=_PAGE_MS)
    shown_s = time.perf_counter() - began_s
    await page.wait_for_function(f"{is_alive} && {is_next}", timeout=_PAGE_MS)
    return shown_s, time.perf_counter() - began_s
