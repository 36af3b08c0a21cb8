"""A server that is no GCS is told from one, before Ray waits for it."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from muster.gateway.cli.errors import CliError
from muster.gateway.cli.ray.connection import connect


def test_an_http_server_is_no_gcs() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:

        def respond() -> None:
            with server.accept()[0] as client:
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                client.recv(1 << 16)

        responding = pool.submit(respond)
        with pytest.raises(CliError, match=r"no Ray responds at .*: the server there is no GCS"):
            connect(f"127.0.0.1:{server.getsockname()[1]}", None)
        responding.result()
