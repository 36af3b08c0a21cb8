"""A real object storage on this machine: SeaweedFS, which speaks S3."""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from pytest_muster.bound import bound
from tests.conformance.kafka import free_ports
from tests.muster_process import eventually

_WEED = Path(sysconfig.get_path("scripts")) / "weed"
_START_S = 120.0


@dataclass(frozen=True, slots=True)
class SeaweedFS:
    host: str
    port: int
    key: str
    secret: str

    @property
    def endpoint(self) -> str:
        return f"http://{self.host}:{self.port}"

    def environment(self, endpoint: str | None = None) -> dict[str, str]:
        """Return the variables with which obstore finds it, directly or through that endpoint."""
        return {
            "AWS_ENDPOINT_URL": endpoint or self.endpoint,
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": "us-east-1",
        }


@contextmanager
def seaweedfs(folder: Path, host: str = "127.0.0.1") -> Iterator[SeaweedFS]:
    """Start a server on an empty folder, at that address; end it. It makes buckets when they are first written to."""
    master, volume, filer, s3, *grpc = free_ports(8)
    server = SeaweedFS(host, s3, secrets.token_hex(8), secrets.token_hex(16))
    identity = {
        "name": "tests",
        "credentials": [{"accessKey": server.key, "secretKey": server.secret}],
        "actions": ["Admin", "Read", "Write", "List"],
    }
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": [identity]}))
    data = folder / "data"
    data.mkdir()
    ports = {"master": master, "volume": volume, "filer": filer, "s3": s3}
    options = [f"-{name}.port={port}" for name, port in ports.items()]
    options += ["-s3.port.iceberg=0", "-s3.port.lance=0"]
    options += [f"-{name}.port.grpc={port}" for name, port in zip(ports, grpc, strict=True)]
    command = [
        *(str(_WEED), "server", f"-dir={data}", f"-ip={host}", f"-ip.bind={host}", "-s3", f"-s3.config={config}"),
        # No limit for the number of volumes: each bucket takes seven.
        *("-volume.max=0", "-master.volumeSizeLimitMB=64", *options),
    ]
    with (folder / "weed.log").open("wb") as log:
        # SIGKILL: it takes 20 s to end in order, and its data are thrown away.
        process = subprocess.Popen(bound(command, signal.SIGKILL), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        eventually(lambda: process.poll() is not None or _responds(server.endpoint), bool, "its response", _START_S)
        assert process.poll() is None, (folder / "weed.log").read_text()[-2000:]
        yield server
    finally:
        process.kill()
        process.wait()


def _responds(endpoint: str) -> bool:
    try:
        with urlopen(f"{endpoint}/healthz", timeout=5) as response:
            return bool(response.status == 200)
    except (URLError, OSError):
        return False
