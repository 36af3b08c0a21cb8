"""Replaces brokers' addresses in responses with the proxy's own, and limits versions in ApiVersions.

A client connects to the brokers that Metadata, FindCoordinator and DescribeCluster name, and to the new leaders in
responses to Produce, Fetch, ShareFetch and ShareAcknowledge (KIP-951). For these APIs, ApiVersions offers no version
that the codec does not know, since such a response could not be rewritten. All else goes to the client unchanged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from muster.actors.wire.kafka import codec

Address = tuple[str, int]
"""Host and port."""

PRODUCE, FETCH, METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER, SHARE_FETCH, SHARE_ACKNOWLEDGE = 0, 1, 3, 10, 60, 78, 79
_ARRAYS = {
    PRODUCE: "node_endpoints",
    FETCH: "node_endpoints",
    METADATA: "brokers",
    FIND_COORDINATOR: "coordinators",
    DESCRIBE_CLUSTER: "brokers",
    SHARE_FETCH: "node_endpoints",
    SHARE_ACKNOWLEDGE: "node_endpoints",
}
"""The array of the response that has hosts and ports. FindCoordinator has one pair and no array before version 4."""


def may_change(api_key: int, version: int) -> bool:
    """Whether a response of that API and version may need a change, so that it must be decoded."""
    if api_key == codec.API_VERSIONS:
        return True
    if api_key not in _ARRAYS:
        return False
    return api_key == FIND_COORDINATOR or _ARRAYS[api_key] in _fields(codec.response_type(api_key, version))


def addresses(api_key: int, response: Any) -> set[Address]:
    """Return the brokers that the decoded response names. The empty address of an error does not count."""
    return {(place.host, int(place.port)) for place in _places(api_key, response) if _is_address(place)}


def rewritten(api_key: int, response: Any, ours: Mapping[Address, Address]) -> Any:
    """Return the response with ``ours`` in place of the brokers' addresses; itself if nothing needs to change."""
    if api_key == codec.API_VERSIONS:
        return _with_known_versions(response)
    before = _places(api_key, response)
    places = tuple(_moved(place, ours) for place in before)
    if places == before:
        return response
    array = _ARRAYS[api_key]
    return dataclasses.replace(response, **{array: places}) if array in _fields(type(response)) else places[0]


def _places(api_key: int, response: Any) -> tuple[Any, ...]:
    """Return the items with a host and a port."""
    array = _ARRAYS.get(api_key)
    if array is not None and array in _fields(type(response)):
        return tuple(getattr(response, array))
    return (response,) if api_key == FIND_COORDINATOR else ()


def _is_address(place: Any) -> bool:
    return bool(place.host) and 0 < place.port < 1 << 16


def _moved(place: Any, ours: Mapping[Address, Address]) -> Any:
    found = ours.get((place.host, int(place.port)))
    return place if found is None else dataclasses.replace(place, host=found[0], port=found[1])


def _with_known_versions(response: Any) -> Any:
    """ApiVersions with known versions only; a null array belongs to an error."""
    offered = tuple(response.api_keys or ())
    known = tuple(_known(each) for each in offered)
    return response if known == offered else dataclasses.replace(response, api_keys=known)


def _known(offered: Any) -> Any:
    if offered.api_key not in _ARRAYS:
        return offered
    newest = codec.versions_of(offered.api_key)[-1]
    return dataclasses.replace(offered, max_version=newest) if offered.max_version > newest else offered


def _fields(kind: Any) -> set[str]:
    return {declared.name for declared in dataclasses.fields(kind)}
