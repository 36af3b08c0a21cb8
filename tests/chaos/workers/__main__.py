"""``python -m tests.chaos.workers SPEC.json``. Exit code 0 after SIGTERM, 1 if the library gave up; the journal has the
reason.
"""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from pathlib import Path

from tests.chaos.workers.base import EndedEarly, Worker
from tests.chaos.workers.spec import TRANSFORMER, Spec

_MODULES = {"confluent": "confluent", "kafka-python": "kafka_python", "aiokafka": "aio"}


def main(path: str) -> int:
    spec = Spec.load(Path(path))
    name = TRANSFORMER if spec.role == TRANSFORMER else _MODULES[spec.library]
    module = import_module(f"tests.chaos.workers.{name}")  # one library in memory, not three
    worker: Worker = getattr(module, spec.role.capitalize())(spec)
    try:
        worker.run()  # type: ignore[attr-defined]
    except EndedEarly:
        pass
    except Exception as error:
        traceback.print_exc()
        worker.journal.write("fatal", error=f"{type(error).__name__}: {error}"[:300])
        return 1
    worker.journal.write("stop")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
