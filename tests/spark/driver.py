"""A driver for a test: ``python -m tests.spark.driver ADDRESS TOKEN_PATH`` computes through RayDP until stdin ends.

Says on stdout when its executors have computed something.
"""

from __future__ import annotations

import sys
from pathlib import Path

from spark.session import raydp_session


def main() -> None:
    address, token_path = sys.argv[1:]
    with raydp_session(address, token_path=Path(token_path)) as session:
        print(session.range(1000).selectExpr("sum(id)").first()[0], flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
