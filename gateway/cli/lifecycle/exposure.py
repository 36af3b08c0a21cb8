"""What strangers could reach: a start that would let them in is refused, unless it was requested by name."""

from __future__ import annotations

import ipaddress

from muster.actors.config import Listener, MusterConfig

_REQUIRED = "required"


def check_exposure(config: MusterConfig, *, on_cluster: bool) -> None:
    """ValueError if a port without authentication would be open to other hosts.

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
