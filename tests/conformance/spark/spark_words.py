"""A word count with Structured Streaming on a Ray: ``spark_words.py RAY TOKEN BOOTSTRAP INPUT OUTPUT CHECKPOINT``.

RAY is its address, TOKEN the file with its token, CHECKPOINT a folder. The output has words as keys, and their
number so far as values. It runs until SIGTERM. SPARK_CONF_DIR names the jars of Spark's source and sink of Kafka.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, explode, split

from muster.spark.session import SparkUnavailable, raydp_session

FREE_S = 60
_PAUSE_S = 0.5
_POLL_S = 1


def main(ray: str, token: str, bootstrap: str, source: str, output: str, checkpoint: str) -> None:
    with session(ray, Path(token)) as spark:
        stopped = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stopped.set())  # after Ray has set its own
        kafka = {"kafka.bootstrap.servers": bootstrap}
        lines = spark.readStream.format("kafka").options(**kafka, subscribe=source, startingOffsets="earliest").load()
        words = lines.select(explode(split(col("value").cast("string"), " ")).alias("word"))
        counts = words.groupBy("word").count().selectExpr("word AS key", "CAST(count AS STRING) AS value")
        sink = counts.writeStream.format("kafka").outputMode("update").options(**kafka, topic=output)
        query = sink.option("checkpointLocation", checkpoint).start()
        while not stopped.is_set() and not query.awaitTermination(_POLL_S):
            pass
        query.stop()


@contextmanager
def session(ray: str, token: Path) -> Iterator[SparkSession]:
    """Wait until the executors of a killed predecessor have ended; yield a session.

    Raises SparkUnavailable if they do not.
    """
    deadline = time.monotonic() + FREE_S
    with ExitStack() as stack:
        while True:
            try:
                spark = stack.enter_context(raydp_session(ray, token_path=token))
                break
            except SparkUnavailable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_S)
        yield spark


if __name__ == "__main__":
    main(*sys.argv[1:])
