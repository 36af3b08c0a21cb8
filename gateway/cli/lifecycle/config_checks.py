"""What ``muster up`` and ``muster doctor`` check of a configuration beyond the values of properties."""

from __future__ import annotations

from pathlib import Path

from muster.actors.config import MusterConfig
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.lifecycle.advertising import check_addresses
from muster.gateway.cli.lifecycle.exposure import check_exposure
from muster.gateway.security.files import PropertyFileError
from muster.gateway.security.sasl import Sasl
from muster.gateway.security.tls.listeners import TlsListeners
from muster.gateway.security.tls.stores import StoreError
from muster.gateway.security.tokens import TokensFile


def check_users(config: MusterConfig) -> None:
    """CliError if the file of users cannot be used."""
    try:
        if (sasl := Sasl.of(config)) is not None:
            sasl.close()
    except PropertyFileError as error:
        raise CliError(f"{error}; muster user add writes them") from error


def check_tokens(config: MusterConfig) -> None:
    """CliError if the file of tokens cannot be used."""
    try:
        if config.http_tokens_file is not None:
            TokensFile(Path(config.http_tokens_file))
    except PropertyFileError as error:
        raise CliError(f"{error}; muster token add writes them") from error


def check_certificates(config: MusterConfig) -> None:
    """CliError if a certificate or its key cannot be used."""
    try:
        TlsListeners(config).close()
    except StoreError as error:
        raise CliError(str(error)) from error


def check_listeners(config: MusterConfig, *, on_cluster: bool) -> None:
    """CliError if two gateways would advertise one address, or a listener faces other hosts without consent."""
    try:
        check_addresses(config, on_cluster=on_cluster)
        check_exposure(config, on_cluster=on_cluster)
    except ValueError as error:
        raise CliError(str(error)) from error
