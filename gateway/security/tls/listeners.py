"""TLS of each listener of a gateway, and its changes while it serves.

New settings (of the view) and changed files take effect for new connections; open ones keep what they began with.
Settings that cannot be read, or must not replace those in use, are reported and left out.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import ssl
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from muster.actors.config import MusterConfig
from muster.actors.config.overrides import METRICS
from muster.actors.config.tls.settings import TlsSettings
from muster.gateway.security.files import Stamp, stamp_of
from muster.gateway.security.tls.contexts import ChangeRefused, Served, load
from muster.gateway.security.tls.stores import StoreError

log = logging.getLogger(__name__)

LOOK_S = 5.0
"""How often the files are looked at."""
_SOON_DAYS = 30
THREADS = 2


class TlsListeners:
    """Listeners of one gateway that use TLS, and the HTTP port if it does. For one event loop."""

    def __init__(self, config: MusterConfig) -> None:
        """Read every store. Blocks. Raises StoreError."""
        self._settings = settings_of(config)
        self._served = {name: _Loaded(settings) for name, settings in self._settings.items()}
        self._tried = {name: loaded.stamp for name, loaded in self._served.items()}
        """The files at the last attempt to load them, whether it succeeded or not."""
        self._turn = asyncio.Lock()
        self._following: set[asyncio.Task[None]] = set()
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tls")
        """For handshakes; they begin with the first."""
        for name, loaded in self._served.items():
            _report(name, loaded.served, "is")
        self._http = self._http_context() if METRICS in self._served else None

    def __bool__(self) -> bool:
        return bool(self._served)

    def served(self, listener: str) -> Served:
        """Return the current TLS of the listener of that name."""
        return self._served[listener].served

    def context(self, listener: str) -> ssl.SSLContext:
        """For a new connection."""
        return self._served[listener].served.context

    @property
    def http_context(self) -> ssl.SSLContext | None:
        """For a server of the HTTP port; it uses the newest certificate by itself. None without TLS."""
        return self._http

    def _http_context(self) -> ssl.SSLContext:
        outer = self._served[METRICS].served.context

        def newest(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
            connection.context = self._served[METRICS].served.context

        outer.sni_callback = newest
        return outer

    def days_left(self) -> Iterator[tuple[str, float]]:
        """By listener: days until its certificate expires."""
        for name, loaded in self._served.items():
            yield name, loaded.served.days_left()

    def follow(self, config: MusterConfig) -> None:
        """Apply the configuration in force, in the background. The set of listeners does not change."""
        changed = settings_of(config) != self._settings
        if changed and self._served:
            task = asyncio.get_running_loop().create_task(self.apply(config))
            self._following.add(task)
            task.add_done_callback(self._following.discard)

    async def apply(self, config: MusterConfig) -> None:
        """Load what has changed in the settings or in the files."""
        async with self._turn:
            new = settings_of(config)
            for name in self._served:
                settings_changed = new[name] != self._settings[name]
                stamp = await asyncio.to_thread(_stamp, new[name])
                if settings_changed or stamp != self._tried[name]:
                    self._tried[name] = stamp
                    await self._replace(name, new[name])
            self._settings = new

    async def _replace(self, name: str, settings: TlsSettings) -> None:
        before = self._served[name]
        try:
            loaded = await asyncio.to_thread(_successor, before, settings)
        except (StoreError, ChangeRefused) as error:
            log.error("listener %s continues with the certificate that it has: %s", name, error)
            return
        if loaded.digest != before.digest or loaded.served.settings != before.served.settings:
            self._served[name] = loaded
            _report(name, loaded.served, "is from now on")

    async def watch(self, config: Callable[[], MusterConfig]) -> None:
        """Look at the files from time to time; runs until it is cancelled. ``config`` gives the one in force."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.apply(config())
            except Exception:
                log.exception("the certificates could not be looked at")

    async def refusal(self, config: MusterConfig) -> str | None:
        """Why this configuration must not come into force; None if it may."""
        for name, settings in settings_of(config).items():
            loaded = self._served[name]
            if settings == loaded.served.settings and await asyncio.to_thread(_stamp, settings) == loaded.stamp:
                continue
            try:
                await asyncio.to_thread(_successor, loaded, settings)
            except (StoreError, ChangeRefused) as error:
                return f"listener {name}: {error}"
        return None

    def close(self) -> None:
        """End the threads."""
        for task in self._following:
            task.cancel()
        self.threads.shutdown(wait=False, cancel_futures=True)


class _Loaded:
    """Loaded context, and the state of its files. Blocks. Raises StoreError."""

    def __init__(self, settings: TlsSettings) -> None:
        self.stamp = _stamp(settings)
        self.digest = _digest(settings)
        self.served = load(settings)


def _successor(before: _Loaded, settings: TlsSettings) -> _Loaded:
    loaded = _Loaded(settings)
    before.served.check_successor(loaded.served)
    return loaded


def settings_of(config: MusterConfig) -> Mapping[str, TlsSettings]:
    """By name of the listener."""
    found = {listener.name: config.tls(listener) for listener in config.all_listeners}
    found[METRICS] = config.http_tls
    return {name: settings for name, settings in found.items() if settings is not None}


def _locations(settings: TlsSettings) -> list[Path]:
    return [Path(each) for each in (settings.keystore.location, settings.truststore.location) if each is not None]


def _stamp(settings: TlsSettings) -> tuple[Stamp, ...]:
    return tuple(map(stamp_of, _locations(settings)))


def _digest(settings: TlsSettings) -> bytes:
    try:
        return hashlib.sha256(b"\0".join(path.read_bytes() for path in _locations(settings))).digest()
    except OSError:
        return b""


def _report(name: str, served: Served, verb: str) -> None:
    days = served.days_left()
    level = logging.WARNING if days < _SOON_DAYS else logging.INFO
    log.log(
        level,
        "the certificate of listener %s %s that of %s; it ends on %s, in %d days",
        name,
        verb,
        served.subject,
        served.not_after.isoformat(),
        days,
    )
