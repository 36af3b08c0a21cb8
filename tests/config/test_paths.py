"""Paths of files are absolute: actors, which open them, have another working directory than the command."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from muster.actors.config import MusterConfig

ZOOKEEPER = {"zookeeper.connect": "localhost:2181", "zookeeper.ssl.client.enable": "true"}


@pytest.mark.parametrize(
    "name",
    [
        "http.tokens.file",
        "sasl.credentials.file",
        "sasl.oauthbearer.jwks.endpoint.ssl.truststore.location",
        "ssl.keystore.location",
        "ssl.truststore.location",
        "zookeeper.credentials.file",
        "zookeeper.server.lib",
        "zookeeper.ssl.keystore.location",
        "zookeeper.ssl.truststore.location",
    ],
)
def test_a_relative_path_is_made_absolute(name: str) -> None:
    needed = ZOOKEEPER if "zookeeper" in name and name != "zookeeper.server.lib" else {}
    config = MusterConfig.model_validate({name: "folder/it", **needed})
    assert getattr(config, name.replace(".", "_")) == str(Path.cwd() / "folder/it")


def test_a_zookeeper_that_muster_would_not_run_is_refused() -> None:
    with pytest.raises(ValueError, match=r"zookeeper\.server\.lib has no effect with zookeeper\.connect"):
        MusterConfig.model_validate({"zookeeper.server.lib": "/lib", "zookeeper.connect": "localhost:2181"})


def test_no_part_hides_a_method_of_another() -> None:
    """A validator that has the name of one in another part replaces it."""
    ours = [part for part in MusterConfig.__mro__ if part.__module__.startswith("muster.")]
    names = Counter(name for part in ours for name in vars(part) if not name.startswith(("__", "model_", "_abc")))
    assert not [name for name, count in names.items() if count > 1]
