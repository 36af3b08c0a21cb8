"""Draws one plot with matplotlib, in an environment without Muster; :mod:`benchmarks.comparison.plot` starts it."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

_EARLIER, _LAST, _GOAL = "#9aa5b1", "#1f6feb", "#d1242f"
_ROW_INCHES = 0.24


def draw(request: dict[str, Any]) -> None:
    """Draw one row per label: a dot for each run, joined by a line, and a mark at the goal."""
    plt: Any = importlib.import_module("matplotlib.pyplot")
    ticker: Any = importlib.import_module("matplotlib.ticker")
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "muster", "font.family": "sans-serif", "font.size": 8})
    labels, goals, runs = request["labels"], request["goals"], request["runs"]
    places = [*range(len(labels))][::-1]
    figure, axes = plt.subplots(figsize=(9, 1.2 + _ROW_INCHES * len(labels)), layout="constrained")
    axes.axvline(1, color="black", linewidth=0.8)
    if len(runs) == 2:
        for place, earlier, last in zip(places, *runs, strict=True):
            if earlier is not None:
                axes.plot([earlier, last], [place, place], color=_EARLIER, linewidth=1, zorder=1)
        found = [(value, place) for value, place in zip(runs[0], places, strict=True) if value is not None]
        axes.scatter(*zip(*found, strict=True), s=18, color=_EARLIER, label="before", zorder=2)
    axes.scatter(runs[-1], places, s=22, color=_LAST, label="now", zorder=3)
    axes.scatter(goals, places, s=60, color=_GOAL, marker="|", label="goal", zorder=2)
    axes.set(xscale="log", xlabel="times as good as Apache Kafka")
    axes.set_yticks(places, labels)
    axes.xaxis.set_major_locator(ticker.LogLocator(base=10, subs=(1, 3), numticks=20))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}x"))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.grid(axis="x", linewidth=0.3)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False)
    figure.savefig(request["output"], metadata={"Date": None})


if __name__ == "__main__":
    draw(json.loads(sys.argv[1]))
