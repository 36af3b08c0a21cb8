"""An autoscaling policy for Ray Serve: as many replicas as a consumer group needs members.

Serve pickles the class by value, with all that it uses of this module, and runs it in its controller, where Muster has
to be installed as well: the sizing is pickled by name. So nothing here imports Ray, or what is large.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import math
import os
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlencode, urlsplit

from muster.gateway.client.errors import InvalidScaling
from muster.gateway.client.scaling.rates import PartitionLag, partition_lags
from muster.gateway.client.scaling.sizing import Sizing

log = logging.getLogger("ray.serve")
"""Serve's own: its controller writes no other logger to its file."""
_TIMEOUT_S = 5.0
_STALE_POLLS, _STALE_S = 5, 10.0
"""A response is of use for that many polls, and that many seconds at least."""


class _Context(Protocol):
    """The part of Serve's ``AutoscalingContext`` that is used."""

    target_num_replicas: int
    capacity_adjusted_min_replicas: int
    capacity_adjusted_max_replicas: int


class LagAutoscalingPolicy:
    """Sets as many replicas as the consumer group needs members to read its records in time.

    For Serve's ``AutoscalingPolicy(policy_function=LagAutoscalingPolicy, policy_kwargs={...})``. Each replica has to be
    a member of the group. At 0 replicas, one is started as soon as a record is unread; the bounds are Serve's
    ``min_replicas`` and ``max_replicas``. Set ``upscale_delay_s`` and ``downscale_delay_s`` to 0: the policy waits by
    itself, and Serve's delays, by default 30 s and 10 minutes, come on top.

    It keeps the replicas that there are while Muster does not respond. Where records lie in a partition without a
    committed offset, one replica runs: nobody knows whether the group is going to read them.
    """

    def __init__(
        self,
        group: str,
        http: Sequence[str],
        target_s: float = 10,
        poll_s: float = 1,
        *,
        topics: Sequence[str] = (),
        start_s: float = 20,
        idle_s: float = 30,
        down_s: float = 30,
    ) -> None:
        """Scale by the lag of the group, as Muster's gateways say at the URLs ``http``.

        ``target_s``: the oldest unread record should not be older. ``topics`` that the group reads: needed to start the
        first replica of a group that has committed nothing yet, or not in all their partitions. ``start_s``: from the
        decision to add a replica until it reads. ``idle_s``: time without a record after which ``min_replicas`` are
        left. ``down_s``: time for which fewer replicas must have been enough.

        Logs in by MUSTER_HTTP_TOKEN, MUSTER_HTTP_TOKEN_FILE, or MUSTER_HTTP_USER and MUSTER_HTTP_PASSWORD in the
        environment of Serve's controller.

        Raises nothing, as Serve's controller would then update no application any more: with arguments that cannot be,
        the replicas stay as they are. A program calls :meth:`check` before it deploys.
        """
        self._group = group
        self._problem = ""
        self._lag: _Lag | None = None
        self._size: int | None = None
        self._thread: threading.Thread | None = None
        try:
            self._sizing = Sizing(0, 0, target_s, start_s, idle_s=idle_s, down_s=down_s)
            self._poller = _Poller(group, topics, [http] if isinstance(http, str) else http, poll_s)
        except (InvalidScaling, TypeError, ValueError, AttributeError) as error:
            self._problem = f"group {group} cannot be scaled by its lag: {error}"
            log.error("Muster: %s; the replicas stay as they are", self._problem)

    def check(self) -> None:
        """Raise InvalidScaling if the arguments cannot be."""
        if self._problem:
            raise InvalidScaling(self._problem)

    def __call__(self, ctx: _Context) -> tuple[int, dict[str, Any]]:
        """Return the number of replicas, and no state. Called by Serve ten times a second; never waits, nor raises."""
        if self._problem:
            return ctx.target_num_replicas, {}
        if self._thread is None:
            self._thread = threading.Thread(target=self._poller.run, name="muster-lag", daemon=True)
            self._thread.start()
            weakref.finalize(self, self._poller.stopped.set)
        lag = self._poller.lag
        if lag is None or time.monotonic() - lag.at_s > max(_STALE_POLLS * self._poller.poll_s, _STALE_S):
            return ctx.target_num_replicas, {}
        if lag is not self._lag:
            self._lag = lag
            self._size = self._look(lag, ctx)
        return ctx.target_num_replicas if self._size is None else self._size, {}

    def _look(self, lag: _Lag, ctx: _Context) -> int | None:
        self._sizing.low = ctx.capacity_adjusted_min_replicas
        self._sizing.high = max(ctx.capacity_adjusted_max_replicas, self._sizing.low)
        try:
            return self._sizing.look(lag.at_s, lag.rows, ctx.target_num_replicas)
        except Exception:
            log.exception("Muster: the lag of group %s makes no sense; the replicas stay as they are", self._group)
            return None


class _Lag(NamedTuple):
    """A response."""

    at_s: float
    rows: list[PartitionLag]


class _Poller:
    """Requests the lag of a group, again and again. Knows no policy, so that its thread ends with the policy."""

    def __init__(self, group: str, topics: Sequence[str], http: Sequence[str], poll_s: float) -> None:
        self.stopped = threading.Event()
        self.lag: _Lag | None = None
        self.poll_s = poll_s
        self._group = group
        self._target = "/v1/groups/lag?" + urlencode([("group", group), *(("topic", topic) for topic in topics)])
        self._urls = [url.strip().rstrip("/").removesuffix("/metrics") for url in http]
        self._fails = False
        if not 0 < poll_s < math.inf:
            raise InvalidScaling(f"poll_s cannot be {poll_s}: choose seconds above 0")
        for url in self._urls:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise InvalidScaling(f"{url!r} is no URL of a gateway: choose one such as http://HOST:PORT")
        if not (self._urls and group):
            raise InvalidScaling("a group and the URL of a gateway are needed, such as http://HOST:PORT")

    def run(self) -> None:
        while not self.stopped.is_set():
            self._poll()
            self.stopped.wait(self.poll_s)

    def _poll(self) -> None:
        failures = []
        for url in self._urls:
            try:
                rows = _fetch(url, self._target)
            except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
                failures.append(f"{url}: {str(error) or type(error).__name__}")
                continue
            self.lag = _Lag(time.monotonic(), rows)
            self._urls = [url, *(other for other in self._urls if other != url)]
            if self._fails:
                log.warning("Muster: the lag of group %s is known again, from %s", self._group, url)
            self._fails = False
            return
        if not self._fails:
            log.warning(
                "Muster: the lag of group %s is unknown, so the replicas stay as they are, until it is known (%s)",
                self._group,
                "; ".join(failures),
            )
        self._fails = True


def _fetch(url: str, target: str) -> list[PartitionLag]:
    """Return the lag in the partitions of a group; none for an unknown group.

    Raises OSError, HTTPException, ValueError, KeyError or TypeError.
    """
    parts = urlsplit(url)
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    with contextlib.closing(connect(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)) as connection:
        connection.request("GET", f"{parts.path}{target}", headers=_credentials(os.environ))
        response = connection.getresponse()
        text = response.read()
    if response.status == 200:
        return partition_lags(json.loads(text))
    error = str(json.loads(text)["error"]) if text.startswith(b'{"error"') else "not from Muster"
    if response.status == 404 and error.startswith("unknown group"):
        return []
    hint = "; see MUSTER_HTTP_TOKEN in the environment of Serve's controller" if response.status in (401, 403) else ""
    raise ValueError(f"HTTP {response.status}, {error}{hint}")


def _credentials(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the header for the login, the same as for Muster's commands. Raises OSError or ValueError."""
    token = environ.get("MUSTER_HTTP_TOKEN")
    if not token and (file := environ.get("MUSTER_HTTP_TOKEN_FILE")):
        token = Path(file).read_text(encoding="utf-8").strip()
    if token:
        if not (token.isascii() and token.isprintable()):
            raise ValueError("the token in MUSTER_HTTP_TOKEN or MUSTER_HTTP_TOKEN_FILE is none")
        return {"Authorization": f"Bearer {token}"}
    user, password = environ.get("MUSTER_HTTP_USER"), environ.get("MUSTER_HTTP_PASSWORD")
    if not (user and password):
        return {}
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}
