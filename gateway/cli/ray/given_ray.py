"""A Ray that ran before ``muster up --address`` and continues after it. If it ends earlier, that is detected here."""

from __future__ import annotations

import atexit
import os
import time
from pathlib import Path

from muster.actors.config import BadPlaceholder, MusterConfig
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.lifecycle.advertising import check_labels
from muster.gateway.cli.ray import connection
from muster.gateway.cli.ray.reach import Reach

_POLL_S = 0.5


class GivenRay(Reach):
    """Connection of this process to such a Ray. Raises CliError if none responds at the address, or it refuses us."""

    def __init__(self, address: str) -> None:
        connection.connect(address, None)
        import ray

        context = ray.get_runtime_context()
        super().__init__(context.gcs_address, context.get_node_id())

    @property
    def token_path(self) -> str | None:
        """File with the token that we send to this Ray, for other commands; None if it is open or not in a file."""
        if os.environ.get("RAY_AUTH_MODE") != "token" or "RAY_AUTH_TOKEN" in os.environ:
            return None
        return os.environ.get("RAY_AUTH_TOKEN_PATH", str(Path.home() / ".ray/auth_token"))

    def wait_for_nodes(self, count: int, timeout_s: float) -> int:
        """Wait for this many live nodes. Returns their number, which is lower after the timeout or if Ray is lost."""
        import ray

        until = time.monotonic() + timeout_s
        while True:
            alive = sum(node["Alive"] for node in ray.nodes())  # type: ignore[no-untyped-call]
            if alive >= count or time.monotonic() > until or not self.responds:
                return alive
            time.sleep(_POLL_S)

    def check_labels(self, config: MusterConfig) -> None:
        """Raise CliError if a live node lacks a label that the configuration refers to."""
        import ray

        try:
            check_labels(config, [node for node in ray.nodes() if node["Alive"]])  # type: ignore[no-untyped-call]
        except BadPlaceholder as error:
            raise CliError(str(error)) from error

    def close(self) -> None:
        """Disconnect from it."""
        import ray

        if self.responds:
            ray.shutdown()
        else:
            atexit.unregister(ray.shutdown)  # it would wait for processes that have ended
