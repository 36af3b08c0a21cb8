"""The page as a real browser shows it, light and dark, without a network. Skipped, and said so, where there is none."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from spark.answer import Answer, Column, Shown
from spark.jobs.job import Options, Plot
from spark.report_page import render_answers

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
WIDTH, HEIGHT = 1100, 1800
NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
LIGHT, DARK = "1", "0"
PAPER = {LIGHT: "#fdfdfb", DARK: "#15181c"}
FIRST_SERIES = {LIGHT: "#1f6fb4", DARK: "#6db3f2"}
TIMEOUT_S = 100

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium: the report was not looked at in a browser")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    columns = [Column("bucket", "timestamp", False), Column("group", "string", False), Column("bytes", "bigint", True)]
    rows = [
        (NOON + timedelta(minutes=minute), group, 1000 * place + 50 * minute)
        for place, group in enumerate(("archive", "billing"), start=1)
        for minute in range(30)
    ]
    shared: dict[str, Any] = {"note": "", "columns": columns, "cut": False}
    lines = Plot(kind="lines", x=("bucket",), y="bytes", y_label="bytes per second", series=("group",))
    bars = Plot(kind="bars", x=("group",), y="bytes", y_label="bytes", series=("group",))
    answer = Answer(
        job="consumption",
        title="Who consumed how much",
        sections=[
            Shown(name="over_time", title="Over time", rows=rows, plot=lines, **shared),
            Shown(name="ranking", title="In all", rows=rows[::30], plot=bars, **shared),
        ],
    )
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(render_answers([answer], Options(now=NOON)))
    return file


def shown(page: Path, scheme: str) -> Any:
    """Pixels, height x width x (red, green, blue) from 0 to 255."""
    assert BROWSER
    picture = page.with_name(f"{scheme}.png")
    subprocess.run(
        [
            *(
                BROWSER,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--host-resolver-rules=MAP * ~NOTFOUND",
            ),
            *(f"--user-data-dir={page.parent / 'profile'}", f"--blink-settings=preferredColorScheme={scheme}"),
            *(f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={picture}", page.as_uri()),
        ],
        check=True,
        capture_output=True,
        timeout=TIMEOUT_S,
    )
    return np.round(imread(picture)[:, :, :3] * 255).astype(int)


def like(pixels: Any, colour: str) -> int:
    """How many are of that colour."""
    wanted = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    return int((np.abs(pixels - wanted).max(axis=2) <= 3).sum())


@pytest.mark.timeout(2 * TIMEOUT_S)
@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_the_plots_are_there_in_the_colours_of_the_scheme(page: Path, scheme: str) -> None:
    pixels = shown(page, scheme)
    assert pixels.shape == (HEIGHT, WIDTH, 3)
    assert like(pixels[:20, :20], PAPER[scheme]) == 400
    figures = like(pixels, FIRST_SERIES[scheme])
    assert figures > 3_000  # the bar alone is some hundred pixels long and twenty high
    other = LIGHT if scheme == DARK else DARK
    assert like(pixels, FIRST_SERIES[other]) < figures / 20
    used = np.flatnonzero((np.abs(pixels - pixels[0, 0]).max(axis=2) > 20).any(axis=0))
    assert used.min() > 50  # the margins are empty: nothing is wider than the page
    assert used.max() < WIDTH - 50
