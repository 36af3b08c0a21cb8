"""A process that records samples until it is killed: ``python writer.py DIRECTORY FIRST_OFFSET``.

Prints each sample's offset after the store took it; for pending ones also after they were settled. Flushes
continuously in a second thread, so that a kill at any moment is likely to hit a flush.
"""

import os
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from muster.actors.tables.spool import Run, Sample, SampleStore


def sample(offset: int, *, pending: bool) -> Sample:
    return Sample(
        ts_ms=1_700_000_000_000 + offset * 50,  # 72,000 samples an hour: several hours' folders in one run
        group=None if pending else "billing",
        member_id=None,
        client_id="rdkafka",
        host="127.0.0.1",
        topic="flights",
        partition=offset // 50 % 6,  # runs of fifty
        evidence="none" if pending else "assignment",
        reason="pending" if pending else None,
        messages=1,
        bytes=100,
        first_offset=offset,
        last_offset=offset,
    )


def main(directory: Path, first_offset: int) -> None:
    store = SampleStore(directory, gateway=1, flush_ms=1, now_ms=lambda: 1_700_000_000_000)

    def flush_for_ever() -> None:
        while True:
            store.flush()

    threading.Thread(target=flush_for_ever, daemon=True).start()
    pending: list[int] = []
    run: Run | None = None
    for offset in range(first_offset, first_offset + 1_000_000):
        if offset % 3:
            wanted = sample(offset, pending=False)
            if run is None or not run.extend(wanted.ts_ms, 1, 100, offset, offset):
                run = store.add(wanted)
        else:
            pending.append(store.add_pending(sample(offset, pending=True)))
        if len(pending) > 100:
            store.settle(pending.pop(0), group="billing", member_id="m", evidence="assignment", reason=None)
        os.write(1, b"%d\n" % offset)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
