"""UpdateFeatures (api key 57), v0-2: no level is changed here, those that there are can be confirmed (KIP-584).

v1 upgrade_type and validate_only (KIP-778) | v2 no results of single features
The level of ``transaction.version`` is a property, which is read at the start; there is always ``group.version`` 1.
Checks, and their order, are those of Kafka's FeatureControlManager.
"""

from __future__ import annotations

from enum import IntEnum
from functools import partial
from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode, field
from muster.gateway.apis.cluster.features import FEATURES
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import ALTER_CLUSTER, the_cluster
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.listener.gateway import Gateway


class _UpgradeType(IntEnum):
    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def _failed(error: ErrorCode, message: str | None) -> dict[str, Any]:
    return {"throttle_time": 0, "error_code": error, "error_message": message, "results": []}


@api(
    57,
    "UpdateFeatures",
    guard=Guard(Need((ALTER_CLUSTER,), the_cluster)),
    error_body=lambda call, error: _failed(error, call.reason),
)
async def update_features(call: Call) -> Reply | None:
    updates = call.entity().feature_updates
    problems = await call.each(updates, partial(_problem, call.gateway))
    for update, problem in zip(updates, problems, strict=True):
        if problem is not None:
            text = (
                "The update failed for all features since the following feature had an error: Invalid update version "
                f"{update.max_version_level} for feature {update.feature}. {problem}"
            )
            return call.reply(_failed(ErrorCode.invalid_update_version, text))
    results = [
        {"feature": update.feature, "error_code": ErrorCode.none, "error_message": ErrorCode.none.name.upper()}
        for update in updates
    ]
    return call.reply({**_failed(ErrorCode.none, None), "results": results})


def _problem(gateway: Gateway, update: Any) -> str | None:
    wanted, kind = update.max_version_level, _upgrade_type(update)
    feature, controller = FEATURES.get(update.feature), gateway.view.controller_id
    if kind is _UpgradeType.UNKNOWN:
        return "The controller does not support the given upgrade type."
    if wanted < 0:
        return "A feature version cannot be less than 0."
    if feature is None:
        return f"Local controller {controller} does not support this feature."
    if not feature.lowest <= wanted <= feature.highest:
        return f"Local controller {controller} only supports versions {feature.lowest}-{feature.highest}"
    current = feature.level(gateway)
    if wanted < current and kind is _UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if wanted > current and kind is not _UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None if wanted == current else f"Muster's level is {current}: {feature.decided_by}."


def _upgrade_type(update: Any) -> _UpgradeType:
    """Version 0 has a flag instead."""
    if (given := field(update, "upgrade_type", None)) is None:
        return _UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else _UpgradeType.UPGRADE
    return _UpgradeType(given) if given in set(_UpgradeType) else _UpgradeType.UNKNOWN
