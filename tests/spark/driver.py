"""A driver for a test: ``python -m tests.spark.driver ADDRESS TOKEN_PATH [EXECUTORS]``.

Computes through RayDP until stdin ends. Says on stdout when its executors have computed something, or why not.
"""

from __future__ import annotations

import sys
from pathlib import Path

from spark.session import SparkUnavailable, raydp_session


def main() -> None:
    address, token_path, *executors = sys.argv[1:]
    try:
        with raydp_session(address, token_path=Path(token_path), executors=int(*executors or "1")) as session:
            print(session.range(1000).selectExpr("sum(id)").first()[0], flush=True)
            sys.stdin.read()
    except SparkUnavailable as error:
        print(error, flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
