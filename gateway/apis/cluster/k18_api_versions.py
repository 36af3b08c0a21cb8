"""ApiVersions (api key 18), v0-4.

v1 throttle_time_ms | v3 flexible, name and version of the client's software (KIP-511), features (KIP-584)
A version that is not served gets the version-0 response with UNSUPPORTED_VERSION and the versions of this API, so
that the client can retry (KIP-511). The response header is v0 in every version. There are no features.
"""

from __future__ import annotations

import re
from typing import Any

from muster.actors.wire import codec
from muster.actors.wire.codec import ErrorCode, field
from muster.gateway.listener.registry import APIS, Api, Call, Reply, api

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_WITH_SOFTWARE = 3


@api(codec.API_VERSIONS, "ApiVersions", error_body=lambda _, error: _body(error, []))
async def api_versions(call: Call) -> Reply | None:
    own = APIS[codec.API_VERSIONS]
    if call.header.api_version not in own.versions:
        return _version_0(call, own)
    request = call.entity()
    if call.header.api_version >= _FIRST_WITH_SOFTWARE and not _names_software(request):
        return call.reply(_body(ErrorCode.invalid_request, []))
    return call.reply(_body(ErrorCode.none, [APIS[key] for key in sorted(APIS)]))


def _names_software(request: Any) -> bool:
    names = (field(request, "client_software_name", ""), field(request, "client_software_version", ""))
    return all(_SOFTWARE.fullmatch(name) for name in names)


def _version_0(call: Call, own: Api) -> Reply:
    body = _body(ErrorCode.unsupported_version, [own])
    return Reply(codec.encode_response_parts(codec.API_VERSIONS, 0, call.header.correlation_id, body))


def _body(error: ErrorCode, served: list[Api]) -> dict[str, Any]:
    return {
        "error_code": error,
        "api_keys": [
            {"api_key": each.key, "min_version": each.versions[0], "max_version": each.versions[-1]} for each in served
        ],
        "throttle_time": 0,
    }
