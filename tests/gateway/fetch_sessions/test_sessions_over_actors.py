"""Fetch sessions of partitions that several log actors have."""

from __future__ import annotations

from typing import Any

import pytest

from muster.actors.wire.kafka.codec import ErrorCode
from tests.gateway.apis.test_data_apis import PARTITIONS, Fresh, fetch_body, owned, produce, values
from tests.gateway.serving import Client, Serving
from tests.log.support import client_batch

FETCH, VERSION = 1, 18
MAX_BYTES = 1000


def next_of(client: Client, session_id: int, epoch: int) -> Any:
    return client.exchange(FETCH, VERSION, fetch_body(session_id=session_id, session_epoch=epoch, max_bytes=MAX_BYTES))


@pytest.mark.parametrize("number", [0, 1])
def test_a_batch_beyond_max_bytes_is_sent_beside_partitions_without_news(
    full: Serving, fresh: Fresh, number: int
) -> None:
    topic, batch = full.create(fresh("t"), PARTITIONS), client_batch(500)
    assert len(batch) > MAX_BYTES
    partitions = [*owned(full, topic).values()]
    first = partitions.pop(number)
    parts = [(topic, partition, 0) for partition in (first, *partitions)]
    with full.connect() as client:
        opened = client.exchange(FETCH, VERSION, fetch_body(*parts, session_epoch=0, max_bytes=MAX_BYTES))
        assert opened.session_id
        assert next_of(client, opened.session_id, 1).responses == ()
        (produced,) = produce(full.client, (topic, first, batch))
        assert produced.error_code is ErrorCode.none
        (found,) = next_of(client, opened.session_id, 2).responses
        (partition,) = found.partitions
        assert (partition.partition_index, len(values(partition.records))) == (first, 500)
