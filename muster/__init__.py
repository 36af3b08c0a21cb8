"""Consumer groups as actors: a Kafka-protocol service that lives on a Ray cluster.

Public, and kept from release to release:

* :mod:`muster.faults`: faults and plans of faults, to build or check one in Python;
* :mod:`muster.tables`: tables for analysis, read by pyarrow;
* :mod:`muster.spark.tables` and :mod:`muster.spark.streaming.stream`: the same by Spark;
* :mod:`muster.placement`: which partition of ``__consumer_offsets`` a group belongs to.

Everything else is internal and changes without notice. The pytest plugin and the client of the fault API are a
distribution of their own, ``pytest_muster``, which does not need Muster in its environment.
"""

PUBLIC = ("muster.faults", "muster.placement", "muster.spark.streaming.stream", "muster.spark.tables", "muster.tables")
"""Modules that are public by their ``__all__``."""
