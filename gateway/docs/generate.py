"""Tables in docs/ that come from the code: ``python -m muster.gateway.docs.generate`` rewrites them all.

A page has the part to rewrite between two markers. tests/house/test_generated_docs.py fails when a page is behind.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

import muster.gateway.apis  # noqa: F401 - registers the handlers
from muster.actors.config import DYNAMIC, MusterConfig, describe_broker, describe_group, describe_topic
from muster.actors.config.dynamic import OF_A_BROKER
from muster.actors.config.kept import KEPT, KeptProperties
from muster.actors.config.types import text_of
from muster.actors.tables.schemas import TABLES
from muster.gateway.docs.compatibility import render
from muster.gateway.docs.markdown import table
from muster.gateway.listener.api import APIS, Api, Rule
from muster.gateway.metrics.families import FAMILIES, KOP, Family

BEGIN, END = "<!-- begin: python -m muster.gateway.docs.generate -->", "<!-- end -->"
DOCS = Path(__file__).resolve().parents[2] / "docs"


def properties() -> str:
    """Every property of Muster, then what can be set on a topic and on a group."""
    config = MusterConfig.from_properties({})
    broker = [
        (f"`{row.name}`", _default(row.value), _while_running(row.name), row.documentation)
        for row in describe_broker(config)
        if row.name not in KEPT
    ]
    kept = [
        (f"`{field.alias}`", _default(text_of(field.default)), f"{(field.description or '').capitalize()}.")
        for field in KeptProperties.model_fields.values()
    ]
    topic = [(f"`{row.name}`", _default(row.value), row.documentation) for row in describe_topic(config, {})]
    group = [(f"`{row.name}`", _default(row.value), row.documentation) for row in describe_group()]
    return "\n\n".join(
        (
            table(("property", "default", "while running", "what"), broker),
            "Properties of Kafka that admin clients may set for the cluster or a gateway, and that are kept and shown, "
            "but have no effect:",
            table(("property", "default", "why it has no effect"), kept),
            "On a topic (`muster topics create` and `alter`, or any admin client), all of them while running:",
            table(("config", "default", "what"), topic),
            "On a group (`kafka-configs --entity-type groups`, or any admin client), all of them while running:",
            table(("config", "default", "what"), group),
        )
    )


def _while_running(name: str) -> str:
    return "cluster, gateway" if name in OF_A_BROKER else "cluster" if name in DYNAMIC else ""


def _default(value: str | None) -> str:
    return f"`{value}`" if value else ""


def columns() -> str:
    """Return the columns of every table."""
    return "\n\n".join(f"### Columns of {name}\n{_columns_of(schema.arrow)}" for name, schema in TABLES.items())


def _columns_of(schema: pa.Schema) -> str:
    rows = [
        (
            f"`{column.name}`",
            str(column.type),
            column.metadata[b"unit"].decode(),
            "yes" if column.nullable else "",
            column.metadata[b"meaning"].decode(),
        )
        for column in schema
    ]
    return table(("column", "type", "unit", "null", "what"), rows)


def metrics() -> str:
    """Every metric family."""
    rows = [(f"`{family.name}`", family.kind, _labels(family), family.help) for family in FAMILIES]
    return table(("metric", "type", "labels", "what"), rows)


def _labels(family: Family) -> str:
    """Return all labels with KoP's names, else those without ``gateway``, which every family has."""
    names = ("cluster", *family.labels) if family in KOP else family.labels
    return ", ".join(f"`{name}`" for name in names)


def authorization() -> str:
    """Return the rights that each API requires, from the guards of its handlers."""
    rows = [row for key in sorted(APIS) for row in _guarded(APIS[key])]
    unguarded = ", ".join(f"{api.name} ({key})" for key, api in sorted(APIS.items()) if not api.guard.rules)
    return "\n\n".join((table(("key", "API", "requires", "refused as"), rows), f"Open to every client: {unguarded}."))


def _guarded(api: Api) -> list[tuple[str, ...]]:
    return [(str(api.key), api.name, _required(rule), _refused(rule)) for rule in api.guard.rules]


def _required(rule: Rule) -> str:
    rights = " or ".join(f"{right.operation.name} {right.resource.name}" for right in rule.rights)
    return f"{rights} ({rule.of})" if rule.of else rights


def _refused(rule: Rule) -> str:
    if rule.error is None:
        return "left out"
    return f"{int(rule.error)} {rule.error.name.upper()}{', the whole request' if rule.of_all else ''}"


def pages() -> Mapping[str, Callable[[], str]]:
    """Return the generator of each page's part between its markers."""
    return {
        "compatibility.md": render,
        "configuration.md": properties,
        "metrics.md": metrics,
        "security.md": authorization,
        "tables.md": columns,
    }


def generated_part(page: str) -> str:
    """Return the part between the markers. Raises ValueError if they are not there."""
    return _parts(page)[1].strip()


def rewritten(page: str, part: str) -> str:
    """Return the page with another generated part."""
    before, _, after = _parts(page)
    return f"{before}\n{part}\n{after}"


def _parts(page: str) -> tuple[str, str, str]:
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    return page[:begin], page[begin:end], page[end:]


def main() -> int:
    """Rewrite every page; 0."""
    for name, made in pages().items():
        path = DOCS / name
        path.write_text(rewritten(path.read_text(), made()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
