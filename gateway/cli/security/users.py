"""Users of ``muster user``: over Kafka's APIs, through Ray, or in a file."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.cli.client.gateways import Gateways
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.running import connected
from muster.gateway.security.credentials import read, write
from muster.gateway.security.files import PropertyFileError
from muster.gateway.security.scram import SALT_BYTES, ScramCredential, salted_password
from muster.gateway.security.scram_users import (
    MECHANISM_CODES,
    Deletion,
    Refusal,
    Upsertion,
    alteration_of,
    describe,
)
from muster.placement.security.entities import Entity

_DESCRIBE, _ALTER = 50, 51
_CODES = {name: code for code, name in MECHANISM_CODES.items()}
_FOLLOW_S = 5.0

Iterations = Mapping[str, int]
"""By mechanism."""


class Users(Protocol):
    """Users of a cluster. All methods raise CliError, if the users cannot be reached or the change is refused."""

    def found(self) -> dict[str, Iterations]:
        """Return the users."""

    def set(self, name: str, password: str, mechanisms: Sequence[str], iterations: int) -> None:
        """Add the user, or replace these of the user's credentials."""

    def remove(self, name: str) -> None:
        """Remove all credentials of a user. CliError if there are none."""


class UsersOfFile:
    """The users of ``sasl.credentials.file``."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def found(self) -> dict[str, Iterations]:
        return {
            name: {mechanism: credential.iterations for mechanism, credential in held.items()}
            for name, held in self._read().items()
        }

    def set(self, name: str, password: str, mechanisms: Sequence[str], iterations: int) -> None:
        users = self._read()
        new = {each: ScramCredential.of_password(each, password, iterations) for each in mechanisms}
        self._write({**users, name: {**users.get(name, {}), **new}})

    def remove(self, name: str) -> None:
        users = self._read()
        if users.pop(name, None) is None:
            raise CliError(f"{self._path} has no user {name}")
        self._write(users)

    def _read(self) -> dict[str, dict[str, ScramCredential]]:
        try:
            return read(self._path) if self._path.exists() else {}
        except PropertyFileError as error:
            raise CliError(str(error)) from error

    def _write(self, users: Mapping[str, Mapping[str, ScramCredential]]) -> None:
        try:
            write(self._path, users)
        except OSError as error:
            raise CliError(f"{self._path} cannot be written: {error.strerror}") from error


class UsersOfGateway:
    """Users in ZooKeeper, over Kafka's APIs; the principal needs DESCRIBE or ALTER on the cluster."""

    def __init__(self, gateway: Gateways) -> None:
        self._gateway = gateway

    def found(self) -> dict[str, Iterations]:
        return self._described(None)

    def _described(self, users: Sequence[str] | None) -> dict[str, Iterations]:
        body = {"users": None if users is None else [{"name": name} for name in users]}
        response = self._gateway.request(_DESCRIBE, 0, body)
        _check(response.error_code, response.error_message, "users cannot be listed")
        return {
            result.user: {MECHANISM_CODES[info.mechanism]: info.iterations for info in result.credential_infos}
            for result in response.results
            if result.credential_infos
        }

    def set(self, name: str, password: str, mechanisms: Sequence[str], iterations: int) -> None:
        new = [_upsertion(name, password, mechanism, iterations) for mechanism in mechanisms]
        upsertions = [
            {
                "name": each.user,
                "mechanism": each.mechanism,
                "iterations": each.iterations,
                "salt": each.salt,
                "salted_password": each.salted_password,
            }
            for each in new
        ]
        self._alter(name, {"deletions": [], "upsertions": upsertions})

    def remove(self, name: str) -> None:
        held = self._described([name]).get(name)
        if not held:
            raise _unknown(name)
        deletions = [{"name": name, "mechanism": _CODES[mechanism]} for mechanism in held]
        self._alter(name, {"deletions": deletions, "upsertions": []})

    def _alter(self, name: str, body: dict[str, Any]) -> None:
        (result,) = self._gateway.request(_ALTER, 0, body).results
        _check(result.error_code, result.error_message, f"user {name} cannot be changed")


class UsersOfController:
    """Users in ZooKeeper, through Ray: access to it needs no login, so the first user can be added."""

    def __init__(self, directory: Path, address: str | None) -> None:
        """See :func:`connected`."""
        self._at = (directory, address)

    def found(self) -> dict[str, Iterations]:
        with connected(*self._at):
            every = describe(self._entities(), None)
        return {each.user: {MECHANISM_CODES[code]: count for code, count in each.iterations} for each in every}

    def set(self, name: str, password: str, mechanisms: Sequence[str], iterations: int) -> None:
        new = [_upsertion(name, password, mechanism, iterations) for mechanism in mechanisms]
        with connected(*self._at):
            self._alter(name, [], new, {})

    def remove(self, name: str) -> None:
        with connected(*self._at):
            config = self._entities().get(Entity.of_user(name), {})
            held = [code for code, mechanism in MECHANISM_CODES.items() if mechanism in config]
            if not held:
                raise _unknown(name)
            self._alter(name, [Deletion(name, code) for code in held], [], config)

    def _entities(self) -> Mapping[Entity, Mapping[str, str]]:
        found: Mapping[Entity, Mapping[str, str]] = _controller("watch", None).configs.entities
        return found

    def _alter(
        self, name: str, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion], config: Mapping[str, str]
    ) -> None:
        wanted = alteration_of(name, deletions, upsertions, config)
        if isinstance(wanted, Refusal):
            raise CliError(f"user {name} cannot be changed: {wanted.message}")
        (outcome,) = _controller("alter_entities", [wanted])
        _check(ErrorCode(outcome.error), outcome.message, f"user {name} cannot be changed")
        _controller("until_followed", _FOLLOW_S)


def _controller(method: str, *arguments: Any) -> Any:
    from muster.gateway import cluster  # it takes long

    try:
        return cluster.call_controller(method, *arguments)
    except cluster.ClusterError as error:
        raise CliError(str(error)) from error


def _upsertion(name: str, password: str, mechanism: str, iterations: int) -> Upsertion:
    salt = secrets.token_bytes(SALT_BYTES)
    return Upsertion(name, _CODES[mechanism], iterations, salt, salted_password(mechanism, password, salt, iterations))


def _unknown(name: str) -> CliError:
    return CliError(f"ZooKeeper has no user {name}; one of sasl.credentials.file is removed with --file")


def _check(error: ErrorCode, message: str | None, what: str) -> None:
    if error:
        raise CliError(f"{what}: {message or error.name.upper()}")
