"""A group member in its own process, which a test can kill: CLASS BOOTSTRAP TOPIC GROUP CONFIG as arguments.

Config is a JSON object. Once the member has partitions, it writes them to stdout as a line with a JSON list.
"""

from __future__ import annotations

import json
import sys

from tests.cluster.consumer_groups import members
from tests.muster_process import eventually


def main(kind: str, bootstrap: str, topic: str, group: str, config: str) -> None:
    member: members.Member = getattr(members, kind)(bootstrap, topic, group, **json.loads(config))
    member.start()
    print(json.dumps(sorted(eventually(lambda: member.assigned, bool, "partitions"))), flush=True)
    member.join()
    raise SystemExit(repr(member.fatal))


if __name__ == "__main__":
    main(*sys.argv[1:])
