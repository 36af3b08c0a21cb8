"""Properties that are refused, and why: Kafka's that would do nothing here, and names that do not exist."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from muster.actors.config.kept import KeptProperties

NO_EFFECT: tuple[tuple[str, str], ...] = (
    (r"broker\.id|node\.id|reserved\.broker\.max\.id", "gateways number themselves"),
    (r"log\.dirs?", "storage.path is the directory"),
    (r"log\.flush\.(scheduler|offset|start)\..*", "the recovery point of a log moves with each commit"),
    (r"replica\.selector\.class", "client.rack of consumers always applies"),
    (r"replica\..*|min\.insync\.replicas|unclean\..*|leader\..*|auto\.leader\..*", "one copy, in storage.path"),
    (r"log\.cleaner\.(threads|io\..*)", "each actor cleans its own logs, one at a time"),
    (r"num\.(io|network|recovery|replica)\..*|background\.threads", "there are no thread pools to size"),
    (r"group\.coordinator\.((background\.)?threads|new\.enable)", "each offsets partition is an actor of its own"),
    (r"group\.coordinator\.cached\.buffer\.max\.bytes", "a batch has a buffer of its own"),
    (r"zookeeper\.(session|connection)\.timeout\.ms", "nothing that serves waits for ZooKeeper"),
    (r"socket\.(send|receive)\.buffer\.bytes", "the system sizes its buffers itself"),
    (r"inter\.broker\.listener\.name|security\.inter\.broker\.protocol", "gateways do not connect to each other"),
    (r"ssl\.protocol", "ssl.enabled.protocols has the versions"),
    (r"ssl\.endpoint\..*", "gateways do not connect to each other as clients do"),
    (r"ssl\.(provider|engine|secure|trustmanager|keymanager)\b.*", "OpenSSL serves TLS"),
    (
        r"(.*\.)?sasl\.kerberos\..*",
        "Kerberos (GSSAPI) is not served: docs/security.md says why, and how users of a directory can log in",
    ),
    (r"sasl\.mechanism\.inter\.broker\.protocol", "gateways do not connect to each other"),
    (r"transaction\.state\.log\.min\.isr", "one copy, in storage.path"),
    (r"process\.roles|controller\..*|metadata\..*|inter\.broker\..*", "there is no KRaft quorum"),
)
"""Kafka properties that nothing here would obey, as patterns, and why."""

LATER: tuple[str, ...] = (
    r"(.*\.)?sasl\..*|security\..*|principal\..*|.*quota.*",
    r"transaction\.two\.phase\..*|group\.(share|streams)\..*|errors\.deadletterqueue\..*",
)
"""Kafka properties of features that Muster does not have yet, as patterns."""


def property_without_effect(name: str) -> str | None:
    """Return the message for a property of Kafka without effect here; None if it is not known to be one."""
    kept = KeptProperties.model_fields.get(name.replace(".", "_"))
    reasons = (reason for pattern, reason in NO_EFFECT if re.fullmatch(pattern, name))
    reason = next(reasons, kept.description if kept is not None else None)
    return None if reason is None else f"{name} has no effect in Muster ({reason}); leave it out"


def unknown_property(name: str, known: Iterable[str]) -> str:
    """Return the message for a property that is none of the ``known`` ones."""
    if (problem := property_without_effect(name)) is not None:
        return problem
    if any(re.fullmatch(pattern, name) for pattern in LATER):
        return f"{name} comes with a later version of Muster; leave it out"
    nearest = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.7)
    return f"unknown property {name}" + (f" (did you mean {nearest[0]}?)" if nearest else "")
