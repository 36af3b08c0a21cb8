"""Alterations of a listener's stores: the new certificate is looked at before anything is altered.

Only gateways can: the controller, which decides about all other configs, may run on a node without the files.
"""

from __future__ import annotations

from muster.actors.config import ConfigError
from muster.actors.config.altering import Alteration, InvalidAlteration, configs_after
from muster.actors.config.dynamic import altered
from muster.actors.config.overrides import is_dynamic
from muster.actors.config.resources import ResourceType
from muster.gateway.listener.gateway import Gateway


def concerns_tls(alteration: Alteration) -> bool:
    """Whether it alters how a listener uses TLS."""
    return alteration.type == ResourceType.BROKER and any(is_dynamic(change.name) for change in alteration.changes)


async def tls_problem(gateway: Gateway, alteration: Alteration) -> str | None:
    """Why the certificates of this alteration must not be used; None if they may, or there are none.

    What else may be wrong with it is the controller's to find.
    """
    if not concerns_tls(alteration):
        return None
    configs = gateway.view.configs
    current = configs.brokers.get(int(alteration.name), {}) if alteration.name else configs.cluster
    try:
        wanted = configs_after(alteration, current, gateway.started_with, configs)
        below = configs.cluster if alteration.name else {}
        stores = {name: value for name, value in {**below, **wanted}.items() if is_dynamic(name)}
        config = altered(gateway.started_with, stores)
    except (InvalidAlteration, ConfigError):
        return None
    return await gateway.tls.refusal(config)
