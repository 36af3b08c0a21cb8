"""What every gateway of a running Muster says over HTTP of the whole cluster."""

from __future__ import annotations

import json
from urllib.parse import urlsplit
from urllib.request import urlopen

from tests.muster_process import Muster


def test_every_gateway_names_all_gateways_to_prometheus(muster: Muster) -> None:
    urls = sorted(str(actor["metrics_url"]) for actor in muster.actors().values() if actor["metrics_url"])
    assert len(urls) == 2
    for url in urls:
        with urlopen(url.replace("/metrics", "/v1/prometheus/targets"), timeout=30) as response:
            found = json.load(response)
        assert sorted(target for group in found for target in group["targets"]) == [
            urlsplit(each).netloc for each in urls
        ]
