"""A Ray of one's own for an example: with a token, and without a trace when it ends."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def own_ray(cpus: int = 8) -> Iterator[Path]:
    """Start a Ray on this machine and connect to it; yield a directory that goes with it.

    ``cpus``: what its actors may have together.
    """
    with tempfile.TemporaryDirectory(prefix="example-", dir="/tmp") as directory:
        token = Path(directory) / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(token), RAY_USAGE_STATS_ENABLED="0")
        import ray  # it reads these variables

        ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
            _temp_dir=f"{directory}/r",
        )
        try:
            yield Path(directory)
        finally:
            ray.shutdown()
