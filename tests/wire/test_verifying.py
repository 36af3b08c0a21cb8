"""VERIFY and VERIFIED are read as they were written, and refused when cut off."""

from __future__ import annotations

import pytest

from muster.actors.wire.internal.envelope import Kind, pack, read_token
from muster.actors.wire.internal.verification import (
    VerifyRequest,
    read_verified,
    read_verify,
    write_verified,
    write_verify,
)
from muster.actors.wire.kafka.codec import ErrorCode

PARTITIONS = [("t", 0), ("t", 3), ("grüße", 2_147_483_647)]
REQUEST = VerifyRequest("täx", 1 << 40, 32767, PARTITIONS, add=True, transaction_version=2)


@pytest.mark.parametrize("request_", [REQUEST, VerifyRequest("", -1, -1, [], add=False, transaction_version=0)])
def test_a_request_is_read_as_written(request_: VerifyRequest) -> None:
    message = write_verify(7, request_)
    assert message[0] == Kind.VERIFY
    assert read_verify(message) == (7, request_)


def test_errors_are_read_as_written() -> None:
    errors = [ErrorCode.none, ErrorCode.unknown_server_error, ErrorCode.transaction_abortable]
    message = write_verified(7, errors)
    token, body = read_token(message)
    assert (message[0], token, read_verified(body)) == (Kind.VERIFIED, 7, errors)


@pytest.mark.parametrize("size", range(1, len(write_verify(7, REQUEST))))
def test_a_request_that_is_cut_off_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=r"no token|truncated"):
        read_verify(write_verify(7, REQUEST)[:size])


def test_an_error_that_is_cut_off_is_refused() -> None:
    _, body = read_token(write_verified(7, [ErrorCode.none, ErrorCode.transaction_abortable]))
    for size in range(len(body)):
        with pytest.raises(ValueError, match="truncated"):
            read_verified(body[:size])


def test_an_error_that_kafka_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="Invalid enum value"):
        read_verified(pack([-99]))
