"""Frames of real clients and of Apache Kafka, as ``muster capture`` wrote them: ``CLIENT-API-vN-NNN-request.hex``.

Each is read, written to the same bytes again, and truncated at every byte. A capture that shows a bug is added as is.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kio.schema.index import api_key_map

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import UndecodableRequest, UndecodableResponse, UnknownApi

FILES = sorted((Path(__file__).parent / "frames").glob("*.hex"))
_NAME = re.compile(r"(.+)-([A-Za-z]+)-v(\d+)-(\d+)-(request|response)")
_KEYS = {codec.api_name(key): key for key in api_key_map}
CLIENTS = {
    "aiokafka-0.14.0",
    "apache-kafka-java",
    "confluent-kafka-python",
    "kafka-python",
    "kafkajs",
    "kgo",
    "sarama",
}
MAX_BYTES = 2048


class Frame(NamedTuple):
    client: str
    api_key: int
    version: int
    is_request: bool
    content: bytes

    @property
    def is_known(self) -> bool:
        """Whether the codec has that version. franz-go begins with an ApiVersions that is newer (KIP-511)."""
        return self.version in codec.versions_of(self.api_key)


def frame(file: Path) -> Frame:
    name = _NAME.fullmatch(file.stem)
    assert name is not None, f"{file.name} is no name of muster capture"
    content = bytes.fromhex(file.read_text())
    return Frame(name[1], _KEYS[name[2]], int(name[3]), name[5] == "request", content)


def read(captured: Frame, content: bytes) -> tuple[int, str | None, Any]:
    """Correlation id, client id and entity."""
    if captured.is_request:
        header = codec.decode_header(content)
        assert (header.api_key, header.api_version) == (captured.api_key, captured.version)
        return header.correlation_id, header.client_id, codec.decode_request(header, content)
    correlation_id, entity = codec.decode_response(captured.api_key, captured.version, content)
    return correlation_id, None, entity


def written(captured: Frame, correlation_id: int, client_id: str | None, entity: Any) -> bytes:
    body = {name: getattr(entity, name) for name in entity.__dataclass_fields__}
    if captured.is_request:
        return codec.encode_request(captured.api_key, captured.version, correlation_id, client_id, body)
    return codec.encode_response(captured.api_key, captured.version, correlation_id, body)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_frame(file: Path) -> None:
    captured = frame(file)
    content = captured.content
    if not captured.is_known:
        assert codec.decode_header(content).api_key == codec.API_VERSIONS
        with pytest.raises(UnknownApi):
            read(captured, content)
        return
    assert written(captured, *read(captured, content)) == content
    for cut in range(len(content)):
        with pytest.raises(UndecodableRequest if captured.is_request else UndecodableResponse) as refused:
            read(captured, content[:cut])
        assert 0 < len(str(refused.value)) < 300


def test_the_frames_are_small_and_distinct_and_of_all_clients() -> None:
    frames = [frame(file) for file in FILES]
    assert {captured.client for captured in frames} == CLIENTS
    assert not [captured for captured in frames if len(captured.content) > MAX_BYTES]
    kinds = Counter(captured[:4] for captured in frames)
    assert max(kinds.values()) == 1
    assert len(kinds) >= 100
