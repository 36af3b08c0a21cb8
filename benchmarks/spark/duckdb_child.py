"""``consumption`` in DuckDB: ``python duckdb_child.py REQUEST``, by a Python that has ``duckdb`` and nothing of ours.

REQUEST is an object with ``files`` (Parquet files of ``samples``), ``cores``, ``memory_bytes``, ``spill`` (a folder),
``top`` and ``most`` (rows of a ranking, and of any section). Writes an object to stdout: version, seconds, cpu_s,
by_part (seconds) and rows (their number by section). The sections are those of :mod:`muster.spark.jobs.consumption` in
UTC, in steps of a minute, without a price. As there, what several of them need is computed once.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from typing import Any

_CONSUMER = '"group", member_id, client_id, host'
_SUMS = "sum(messages)::BIGINT AS messages, sum(bytes)::BIGINT AS bytes"
_COVERED_TO = (
    "max(last_offset) OVER (PARTITION BY {keys} ORDER BY first_offset, last_offset "
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS covered_to"
)
_SHARED = {
    "sent": f"""
        SELECT epoch_ms(ts) // 3600000 AS hour, gateway, {_CONSUMER}, topic, partition, reason, {_SUMS}
        FROM samples GROUP BY ALL""",
    "runs": f"""
        WITH covered AS (
            SELECT {_CONSUMER}, topic, partition, first_offset, last_offset, messages, bytes,
                   {_COVERED_TO.format(keys=f"{_CONSUMER}, topic, partition")}
            FROM samples WHERE "group" IS NOT NULL
        ), numbered AS (
            SELECT *, sum(CASE WHEN covered_to IS NULL OR first_offset > covered_to + 1 THEN 1 ELSE 0 END) OVER (
                       PARTITION BY {_CONSUMER}, topic, partition
                       ORDER BY first_offset, last_offset ROWS UNBOUNDED PRECEDING) AS run
            FROM covered
        )
        SELECT {_CONSUMER}, topic, partition, run, min(first_offset) AS first_offset,
               max(last_offset) AS last_offset, {_SUMS}
        FROM numbered GROUP BY ALL""",
    "by_partition": f"""
        WITH covered AS (SELECT *, {_COVERED_TO.format(keys='"group", topic, partition')} FROM runs)
        SELECT "group", topic, partition, {_SUMS},
               sum(greatest(0, last_offset - greatest(first_offset, coalesce(covered_to + 1, first_offset)) + 1)
               )::BIGINT AS read
        FROM covered GROUP BY ALL""",
    "consumers": f"""
        SELECT {_CONSUMER}, count(DISTINCT (topic, partition)) AS partitions, {_SUMS},
               sum(last_offset - first_offset + 1)::BIGINT AS read
        FROM runs GROUP BY ALL""",
}
_SECTIONS = {
    "groups": """
        SELECT "group", sum(messages)::BIGINT, sum(bytes)::BIGINT, sum(read)::BIGINT,
               sum(greatest(0, messages - read))::BIGINT
        FROM by_partition GROUP BY ALL ORDER BY 1""",
    "chargeback": f"""
        SELECT "group", {_SUMS}, sum(bytes) * 100 / sum(sum(bytes)) OVER ()
        FROM sent GROUP BY ALL ORDER BY bytes DESC""",
    "top_consumers": "SELECT * FROM consumers ORDER BY bytes DESC LIMIT {top}",
    "resent": """
        SELECT *, greatest(0, messages - read) * 100 / read AS percent
        FROM consumers WHERE messages > read ORDER BY percent DESC LIMIT {top}""",
    "per_bucket": f"""
        SELECT epoch_ms(ts) // 60000 AS minute, "group", {_SUMS}, sum(bytes) / 60
        FROM samples GROUP BY ALL ORDER BY ALL LIMIT {{most}}""",
    "per_hour": f"""
        SELECT hour, "group", topic, {_SUMS}, sum(bytes) / 3600 FROM sent GROUP BY ALL ORDER BY ALL LIMIT {{most}}""",
    "per_day": f"""
        SELECT hour // 24 AS day, "group", topic, partition, member_id, {_SUMS}, sum(bytes) / 86400
        FROM sent GROUP BY ALL ORDER BY ALL LIMIT {{most}}""",
    "partitions": "SELECT * FROM by_partition ORDER BY ALL LIMIT {most}",
    "gateways": f'SELECT gateway, "group", {_SUMS} FROM sent GROUP BY ALL ORDER BY 1, 2',
    "unattributed": f"""
        SELECT reason, topic, client_id, host, {_SUMS}
        FROM sent WHERE "group" IS NULL GROUP BY ALL ORDER BY 1, 2, 3, 4""",
}


def main() -> None:
    duckdb: Any = import_module("duckdb")
    request: dict[str, Any] = json.loads(sys.argv[1])
    connection = duckdb.connect()
    connection.execute(f"SET threads = {int(request['cores'])}")
    connection.execute(f"SET memory_limit = '{int(request['memory_bytes']) >> 20}MiB'")
    connection.execute("SET temp_directory = $folder", {"folder": request["spill"]})
    limits = {"top": int(request["top"]), "most": int(request["most"])}
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    connection.read_parquet(request["files"]).create_view("samples")
    by_part: dict[str, float] = {}
    counts: dict[str, int] = {}
    for name, query in (*_SHARED.items(), *_SECTIONS.items()):
        before_s = time.perf_counter()
        if name in _SHARED:
            connection.execute(f"CREATE TEMP TABLE {name} AS {query}")
        else:
            counts[name] = len(connection.execute(query.format(**limits)).fetchall())
        by_part[name] = time.perf_counter() - before_s
    cost = {"seconds": time.perf_counter() - began_s, "cpu_s": time.process_time() - began_cpu_s, "by_part": by_part}
    print(json.dumps({"version": duckdb.__version__, **cost, "rows": counts}))


if __name__ == "__main__":
    main()
