"""The checks of ``muster doctor``, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from muster.actors.config import MusterConfig
from muster.actors.object_storage.location import is_uri
from muster.actors.runtime.zookeeper import embedded_access
from muster.gateway.cli.doctor import cluster, machine, places
from muster.gateway.cli.doctor.findings import Finding, failed, from_error, ok, passes, warning
from muster.gateway.cli.lifecycle.config_checks import (
    check_certificates,
    check_listeners,
    check_tokens,
    check_users,
)
from muster.gateway.cli.properties import read_config
from muster.gateway.cli.running import status_of
from muster.gateway.cli.storage import directory as storage_directory
from muster.gateway.client.errors import MusterError
from muster.gateway.security.tls.listeners import TlsListeners
from muster.placement.zookeeper.ensemble import InvalidEnsemble, ensemble_file, modes, read_ensemble

_MIN_DAYS = 30


def checked(
    file: Path | None, sets: tuple[str, ...], flags: dict[str, str | None], address: str | None
) -> Iterator[Finding]:
    """Yield the findings. Arguments as for :func:`read_config`; ``address`` of a running Ray."""
    try:
        config = read_config(file, sets, flags)
    except MusterError as error:
        yield from_error("configuration", error)
        path = flags["storage.path"]
        config = MusterConfig.from_properties({"storage.path": path} if path and not is_uri(path) else {})
    else:
        yield from _configuration(config, on_cluster=address is not None)
    storage = config.directory
    try:
        state = storage_directory.read_state(storage)
    except MusterError as error:
        yield from_error("run state", error)
        state = None
    is_running = storage_directory.holder(storage) is not None
    yield from machine.installation()
    yield from machine.java()
    yield from machine.ray(address)
    given = state.ray_address if state is not None and is_running and not state.is_own_ray else None
    yield from machine.gcs(address or given)
    yield from machine.descriptors(storage, config.log_actors)
    yield from machine.memory(config, is_running=is_running)
    yield from machine.kernel()
    yield from places.storage(storage, shared=address is not None and config.bucket is None)
    if config.bucket is not None:
        yield from places.bucket(config.bucket)
    yield from places.advertised(config)
    if state is not None and is_running:
        yield ok("muster up", f"runs with pid {state.pid}")
        yield from places.reachable(state.bootstrap)
        yield from cluster.clocks(state.metrics)
        yield from _clients(storage)
        if state.ray_token_path is not None:
            yield from places.private(Path(state.ray_token_path), "ray token file")
    else:
        yield from places.ports(config, on_cluster=address is not None)
    yield from _zookeeper(config, state.zookeeper if state is not None and is_running else None)


def _clients(storage: Path) -> Iterator[Finding]:
    try:
        yield from cluster.turned_away(status_of(storage, None))
    except MusterError as error:
        yield warning("clients", error.message, "see run/log/controller.log")


def _zookeeper(config: MusterConfig, running: str | None) -> Iterator[Finding]:
    if config.zookeeper_connect is not None:
        yield from cluster.zookeeper(config.zookeeper_connect, config.zookeeper_access)
        return
    folder = config.directory / "zookeeper"
    try:
        ensemble = read_ensemble(ensemble_file(folder))
    except InvalidEnsemble as error:
        yield failed("zookeeper", str(error), "put a copy of it back")
        return
    if running is None and (ensemble is None or not any(modes(ensemble.servers).values())):
        where = f", on {', '.join(server.address for server in ensemble.servers)}" if ensemble else ""
        yield ok("zookeeper", f"muster up starts its own{where}")
        return
    access = embedded_access(folder)
    known = Path(access.credentials_file or "").exists()
    hosts = running if ensemble is None else ensemble.hosts
    assert hosts is not None
    yield from cluster.zookeeper(hosts, access if known else config.zookeeper_access)
    if ensemble is not None:
        yield from cluster.servers(ensemble)


def _secrets(config: MusterConfig) -> Iterator[Finding]:
    """Check that other users cannot read files of secrets. Missing files are reported by other checks."""
    access = config.zookeeper_access
    tls = [*(config.tls(listener) for listener in config.all_listeners), config.http_tls]
    keystores = {each.keystore.location for each in tls if each is not None}
    files = (config.sasl_credentials_file, config.http_tokens_file, access.credentials_file, access.certificate_file)
    for file in sorted({*files, *keystores} - {None}, key=str):
        if file is not None and Path(file).exists():
            yield from places.private(Path(file), "secrets")


def _configuration(config: MusterConfig, *, on_cluster: bool) -> Iterator[Finding]:
    yield from passes(
        "configuration",
        "valid",
        (
            lambda: check_users(config),
            lambda: check_tokens(config),
            lambda: check_listeners(config, on_cluster=on_cluster),
        ),
    )
    yield from _secrets(config)
    try:
        check_certificates(config)
    except MusterError as error:
        yield from_error("certificates", error)
        return
    listeners = TlsListeners(config)
    try:
        for name, days in listeners.days_left():
            said = f"expires in {days:.0f} days" if days > 0 else "has expired"
            check = f"certificate {name}"
            mend = "put a new certificate in the place of the file"
            if days <= 0:
                yield Finding(check, "failed", said, mend)
            else:
                yield warning(check, said, mend) if days < _MIN_DAYS else ok(check, said)
    finally:
        listeners.close()
