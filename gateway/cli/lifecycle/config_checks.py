"""Checks of a configuration by ``muster up`` and ``muster doctor``, beyond the values of properties."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from muster.actors.config import Listener, MusterConfig
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.lifecycle.advertising import check_addresses
from muster.gateway.security.files import PropertyFileError
from muster.gateway.security.sasl import Sasl
from muster.gateway.security.tls.listeners import TlsListeners
from muster.gateway.security.tls.stores import StoreError
from muster.gateway.security.tokens import TokensFile

_REQUIRED = "required"


def check_users(config: MusterConfig) -> None:
    """Raise CliError if the file of users cannot be used."""
    try:
        if (sasl := Sasl.of(config)) is not None:
            sasl.close()
    except PropertyFileError as error:
        raise CliError(f"{error}; muster user add writes them") from error


def check_tokens(config: MusterConfig) -> None:
    """Raise CliError if the file of tokens cannot be used."""
    try:
        if config.http_tokens_file is not None:
            TokensFile(Path(config.http_tokens_file))
    except PropertyFileError as error:
        raise CliError(f"{error}; muster token add writes them") from error


def check_certificates(config: MusterConfig) -> None:
    """Raise CliError if a certificate or its key cannot be used."""
    try:
        TlsListeners(config).close()
    except StoreError as error:
        raise CliError(str(error)) from error


def check_listeners(config: MusterConfig, *, on_cluster: bool) -> None:
    """Raise CliError if two gateways would advertise one address, or a listener faces other hosts without consent."""
    try:
        check_addresses(config, on_cluster=on_cluster)
        check_exposure(config, on_cluster=on_cluster)
    except ValueError as error:
        raise CliError(str(error)) from error


def check_exposure(config: MusterConfig, *, on_cluster: bool) -> None:
    """Raise ValueError if a port without authentication would be open to other hosts, unless that was requested by
    name.

    ``on_cluster``: whether a listener without a host listens on all interfaces.
    """
    if config.listeners_unauthenticated_enable:
        return
    open_ports = [
        f"listener {each.name} ({each.protocol})"
        for each in config.all_listeners
        if _is_wide(each, on_cluster) and not _authenticates(config, each)
    ]
    if _is_wide(config.all_listeners[0], on_cluster) and not _http_authenticates(config):
        open_ports.append("the HTTP port")
    if open_ports:
        raise ValueError(
            f"other hosts could use {' and '.join(open_ports)} without authentication: set sasl.enabled.mechanisms, or "
            "listen at 127.0.0.1 (listeners); in a network in which everyone may do everything, --insecure, or "
            "listeners.unauthenticated.enable=true"
        )


def _is_wide(listener: Listener, on_cluster: bool) -> bool:
    if not listener.host:
        return on_cluster
    try:
        return not ipaddress.ip_address(listener.host.strip("[]")).is_loopback
    except ValueError:
        return listener.host.lower() != "localhost"


def _authenticates(config: MusterConfig, listener: Listener) -> bool:
    tls = config.tls(listener)
    return listener.needs_login or (tls is not None and tls.client_auth == _REQUIRED)


def _http_authenticates(config: MusterConfig) -> bool:
    tls = config.http_tls
    has_certificates = tls is not None and tls.client_auth == _REQUIRED
    return bool(config.sasl_mechanisms or config.http_tokens_file or has_certificates)
