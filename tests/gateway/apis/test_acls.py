"""DescribeAcls, CreateAcls and DeleteAcls on a real connection."""

from __future__ import annotations

import pytest

from tests.gateway.acl_requests import CREATE, DELETE, VERSIONS, WITHOUT_AUTHORIZER, responses
from tests.gateway.serving import Serving


@pytest.mark.parametrize("version", VERSIONS)
def test_security_is_disabled(served: Serving, version: int) -> None:
    assert responses(served.client, version) == WITHOUT_AUTHORIZER


def test_there_are_as_many_results_as_entries(served: Serving) -> None:
    assert served.exchange(CREATE, 3, {"creations": []}).results == ()
    assert served.exchange(DELETE, 3, {"filters": []}).filter_results == ()
