"""Files of frames: their names and bounds, and a disk that refuses or hangs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.gateway.capture.recorder import Limits, Recorder, file_name_part

ROOMY = Limits(max_frames=1000, max_frame_bytes=1000)
HEARTBEAT, SASL_AUTHENTICATE = 12, 36


def exchange(recorder: Recorder, client: str = "c", version: int = 4, size_bytes: int = 5) -> None:
    """Exchange a request and its response."""
    begun = recorder.request(client, "Heartbeat", HEARTBEAT, version, b"q" * size_bytes)
    if begun is not None:
        recorder.response(begun, version, b"a" * size_bytes)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_request_and_its_response_have_one_number(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, ROOMY)
    exchange(recorder, version=3)
    exchange(recorder, "librdkafka", size_bytes=100)
    recorder.stop()
    assert names(tmp_path) == [
        "c-Heartbeat-v3-001-request.hex",
        "c-Heartbeat-v3-001-response.hex",
        "librdkafka-Heartbeat-v4-002-request.hex",
        "librdkafka-Heartbeat-v4-002-response.hex",
    ]
    text = (tmp_path / "librdkafka-Heartbeat-v4-002-response.hex").read_text()
    assert bytes.fromhex(text) == b"a" * 100
    assert max(map(len, text.splitlines())) == 80
    assert recorder.written == 4


@pytest.mark.parametrize("client", ["../../etc/passwd", "a/b", "\x1b[31m", "", "x" * 500, "ключ", "a b"])
def test_a_client_does_not_choose_where_files_go(tmp_path: Path, client: str) -> None:
    recorder = Recorder(tmp_path / "out", ROOMY)
    (tmp_path / "out").mkdir()
    exchange(recorder, client)
    recorder.stop()
    assert len(names(tmp_path / "out")) == 2
    assert names(tmp_path) == ["out"]
    assert file_name_part(client).isascii()


def test_number_and_size_are_bounded(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, Limits(max_frames=7, max_frame_bytes=10))
    exchange(recorder, size_bytes=11)
    for _ in range(10):
        exchange(recorder)
    recorder.stop()
    assert len(names(tmp_path)) == recorder.written == 7
    assert (recorder.too_large, recorder.lost) == (2, 0)


def test_so_many_of_each(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, Limits(max_frames=1000, max_frame_bytes=10, each=2))
    for client in ("a", "b"):
        for version in (3, 4):
            for _ in range(5):
                exchange(recorder, client, version)
    recorder.stop()
    assert len(names(tmp_path)) == 2 * 2 * 2 * 2


def test_secrets_are_not_written(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, ROOMY)
    assert recorder.request("c", "SaslAuthenticate", SASL_AUTHENTICATE, 2, b"password") is None
    recorder.stop()
    assert (names(tmp_path), recorder.secret) == ([], 1)


def test_a_disk_that_refuses_is_counted_and_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(tmp_path / "gone", ROOMY)
    for _ in range(10):
        exchange(recorder)
    recorder.stop()
    assert (recorder.written, recorder.lost) == (0, 20)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("a frame is not recorded: ")
    assert "No such file or directory" in said


def test_a_file_that_was_written_in_part_is_removed(tmp_path: Path) -> None:
    """A link to /dev/full, where every write fails with ENOSPC."""
    (tmp_path / "c-Heartbeat-v4-001-request.hex").symlink_to("/dev/full")
    recorder = Recorder(tmp_path, ROOMY)
    exchange(recorder)
    recorder.stop()
    assert names(tmp_path) == ["c-Heartbeat-v4-001-response.hex"]
    assert (recorder.written, recorder.lost) == (1, 1)


def test_a_disk_that_hangs_does_not_hold_up_the_recording(tmp_path: Path) -> None:
    """Opening a FIFO hangs until another process reads it."""
    first = tmp_path / "c-Heartbeat-v4-001-request.hex"
    os.mkfifo(first)
    recorder = Recorder(tmp_path, ROOMY)
    for _ in range(300):
        exchange(recorder)
    assert recorder.lost > 300
    assert not names(tmp_path)[1:]
    first.read_text()
    recorder.stop()
    assert recorder.written + recorder.lost == 600
    assert len(names(tmp_path)) == recorder.written
