from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from muster.spark.session import local_session
from tests.marks import mark_folder


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_folder(items, __file__, "spark")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with local_session(cores=1, shuffle_partitions=1) as session:
        # A truncated plan proves nothing.
        session.conf.set("spark.sql.maxMetadataStringLength", "100000")
        yield session
