"""The ``muster`` command that does what a view shows or an action does. Names are quoted for a POSIX shell."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class Target(NamedTuple):
    """Addresses for commands that take one; others look in the storage directory."""

    bootstrap: str = ""
    http: str = ""
    has_login: bool = False
    """Whether the command needs ``--command-config`` for the viewer's credentials."""

    def kafka(self) -> list[str]:
        """Return the options of commands that speak Kafka's protocol."""
        return [*(["--bootstrap-server", self.bootstrap] if self.bootstrap else []), *self.login()]

    def over_http(self) -> list[str]:
        """Return the options of commands that take the address of a gateway's HTTP port."""
        return [*(["--http", self.http] if self.http else []), *self.login()]

    def login(self) -> list[str]:
        """Return the option for credentials."""
        return ["--command-config", "client.properties"] if self.has_login else []


def command(*words: str) -> str:
    """Return the words as a line of a POSIX shell."""
    return shlex.join(["muster", *words])


def _name(name: str, options: Sequence[str]) -> list[str]:
    """Return options before the name, which may begin with a dash."""
    return [*options, "--", name] if name.startswith("-") else [name, *options]


def lag(target: Target) -> str:
    """Return the command for the list of groups."""
    return command("groups", "lag", "--watch", *target.login())


def describe_group(group: str, target: Target) -> str:
    """Return the command for a group's members and partitions."""
    return command("groups", "describe", *_name(group, target.kafka()))


def history(group: str, target: Target) -> str:
    """Return the command for a group's rebalances."""
    return command("groups", "history", *_name(group, target.login()))


def evict(group: str, member: str, target: Target) -> str:
    """Return the command that removes a member."""
    if group.startswith("-") or member.startswith("-"):
        return command("groups", "evict", *target.kafka(), "--", group, member)
    return command("groups", "evict", group, member, *target.kafka())


def reset(
    group: str, to: Mapping[str, Any], topics: Sequence[str] | None, target: Target, iso: Callable[[int], str]
) -> str:
    """Return the command that moves a group's offsets; ``to`` and ``topics`` as in ``POST /v1/groups/reset``.

    ``iso`` returns a time in ms as ISO 8601.
    """
    where = [*_to(to, iso)]
    if "undo" not in to:
        for topic in topics or ():
            where += ["--topic", topic]
        where += [] if topics else ["--all-topics"]
    options = [*where, "--execute", *target.kafka()]
    return command("groups", "reset-offsets", *_name(group, options))


def _to(to: Mapping[str, Any], iso: Callable[[int], str]) -> list[str]:
    match dict(to):
        case {"undo": True}:
            return ["--undo"]
        case {"earliest": True}:
            return ["--to-earliest"]
        case {"latest": True}:
            return ["--to-latest"]
        case {"offset": offset}:
            return ["--to-offset", str(offset)]
        case {"shift": shift}:
            return ["--shift-by", str(shift)]
        case {"time_ms": time_ms}:
            return ["--to-datetime", iso(time_ms)]
    return []


def topics(target: Target) -> str:
    """Return the command for the list of topics."""
    return command("topics", "list", *target.kafka())


def describe_topic(topic: str, target: Target) -> str:
    """Return the command for a topic's partitions."""
    return command("topics", "describe", *_name(topic, target.kafka()))


def tail(topic: str, partition: int | None, from_beginning: bool, limit: int, target: Target) -> str:
    """Return the command that shows records."""
    options = [
        *(["--from-beginning"] if from_beginning else []),
        *([] if partition is None else ["--partition", str(partition)]),
        *("--count", str(limit), "--json"),
        *target.kafka(),
    ]
    return command("topics", "tail", *_name(topic, options))


def produce(
    topic: str, value: str, key: str | None, partition: int | None, headers: Sequence[tuple[str, str]], target: Target
) -> str:
    """Return the command that produces a record of text."""
    options = [*([] if partition is None else ["--partition", str(partition)])]
    for name, text in headers:
        options += ["--header", f"{name}={text}"]
    line = value
    if key is not None:
        options += ["--key-separator", "\t"]
        line = f"{key}\t{value}"
    line_of = shlex.join(["printf", "%s\\n", line])
    return f"{line_of} | {command('topics', 'produce', *_name(topic, [*options, *target.kafka()]))}"


def status() -> str:
    """Return the command for nodes and actors."""
    return command("status")


def drain(address: str, undo: bool) -> str:
    """Return the command that drains a node, or ends that."""
    return command("drain", address, *(["--undo"] if undo else []))


def audit() -> str:
    """Return the command for the audit of attribution."""
    return command("attribution-audit")


def mapping() -> str:
    """Return the command that compares ZooKeeper with the coordinators."""
    return command("mapping", "check")


def fault(values: Mapping[str, Any], target: Target) -> str:
    """Return the command that injects a fault, given as for ``POST /v1/faults``."""
    action = str(values.get("action", ""))
    options: list[str] = []
    for name, value in values.items():
        if name in ("action", "when") or value is None:
            continue
        options += [f"--{name.replace('_', '-')}", str(value)]
    match values.get("when"):
        case "once":
            options.append("--once")
        case {"nth": nth}:
            options += ["--nth", str(nth)]
        case {"probability": probability, **seed}:
            options += ["--probability", str(probability)]
            options += ["--seed", str(seed["seed"])] if "seed" in seed else []
    return command("fault", "inject", action, *options, *target.over_http())


def clear_fault(fault_id: str | None, target: Target) -> str:
    """Return the command that ends one fault, or all."""
    return command("fault", "clear", *([fault_id] if fault_id else []), *target.over_http())


def list_faults(target: Target) -> str:
    """Return the command for the faults in force."""
    return command("fault", "list", *target.over_http())


def run_plan(target: Target) -> str:
    """Return the command that runs a plan in a file."""
    return command("fault", "run", "plan.yaml", *target.over_http())


def spark(job: str) -> str:
    """Return the command that runs a Spark job over the last hour."""
    return command("spark", job, "--from", "-1h")


def curl(http: str, path: str, body: Any = None) -> str:
    """Return a request for what no command does."""
    words = ["curl", "-s", f"{http}{path}"]
    if body is not None:
        words += ["-H", "Content-Type: application/json", "-d", json.dumps(body, separators=(",", ":"))]
    return shlex.join(words)
