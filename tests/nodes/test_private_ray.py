"""The Ray that ``muster up`` starts for itself: no other host reaches it, and no other program finds it by accident."""

from __future__ import annotations

import json
import stat
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.muster_process import eventually
from tests.nodes.launched.lone_host import LoneHost

WAIT_S = 60


def listening(host: LoneHost) -> set[str]:
    """Addresses on which any process of the host listens for TCP."""
    local = (line.split()[3] for line in host.done("ss -Hltn").splitlines())
    return {address.rpartition(":")[0].strip("[]").replace("*", "::").partition("%")[0] for address in local}


@pytest.mark.timeout(600)
def test_a_private_ray_is_for_nobody_else(tmp_path: Path) -> None:
    with LoneHost(tmp_path) as host:
        host.done("muster up --port 0 --storage /srv/data --detach ~/muster.log")
        state = json.loads((host.srv / "data/run/cluster.json").read_text())
        addresses = {ip_address(address) for address in listening(host)}
        assert addresses
        assert all((getattr(each, "ipv4_mapped", None) or each).is_loopback for each in addresses), addresses
        assert stat.S_IMODE(Path(state["ray_temp_dir"]).stat().st_mode) == 0o700

        assert "gateway-1" in host.done("muster status --storage /srv/data")
        token = "RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=/srv/data/run/ray-token"
        assert "gateway-1" in host.done(f"{token} muster status --address {state['ray_address']}")
        for command in ("status", "up --insecure --storage /srv/other"):
            code, said = host.run(f"muster {command} --address auto")
            assert code == 1
            assert said.splitlines()[-1].startswith("muster: no Ray of this user responds on this host; start one")

        host.done("muster down --storage /srv/data")
        eventually(host.processes, lambda left: not left, "every process has ended", WAIT_S)
        assert not Path(state["ray_temp_dir"]).exists()
