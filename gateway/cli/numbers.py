"""Option types for numbers, which help shows as N, MS or SECONDS; an option's text says bounds that matter."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _AnyType = click.ParamType[Any]
else:  # generic since click 8.4 only
    _AnyType = click.ParamType


class Whole(_AnyType):
    """Integer from ``least`` to ``most``."""

    def __init__(self, least: int, most: int | None = None, *, shown: str = "N") -> None:
        self.name = shown
        self._range = click.IntRange(least, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return int(self._range.convert(click.INT.convert(value, param, ctx), param, ctx))


class Real(_AnyType):
    """Finite number from ``least`` to ``most``; above ``least``, if that ``is_open``."""

    def __init__(self, least: float = 0, most: float | None = None, *, is_open: bool = False, shown: str = "N") -> None:
        self.name = shown
        self._range = click.FloatRange(least, most, min_open=is_open)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = float(self._range.convert(click.FLOAT.convert(value, param, ctx), param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return found
