"""A driver for a test: ``python -m tests.spark.streaming_driver STORAGE`` runs job consumption's stream."""

from __future__ import annotations

import sys
from pathlib import Path

from spark.session import local_session
from spark.streaming.stream import run_stream


def main() -> None:
    with local_session(cores=1) as session:
        run_stream(session, Path(sys.argv[1]), "consumption")


if __name__ == "__main__":
    main()
