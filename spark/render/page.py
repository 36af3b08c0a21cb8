"""Self-contained HTML pages: no network, no script, light and dark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined


def render_page(
    template: str, filters: Mapping[str, Callable[..., Any]], /, *, package: str = "muster.spark.render", **values: Any
) -> str:
    """Render a template of the package's ``templates``, which may extend those of this package; values are escaped."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("muster.spark.render")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment.get_template(template).render(**values)
