"""DescribeAcls, CreateAcls and DeleteAcls on a real connection."""

from __future__ import annotations

import pytest

from tests.gateway.acl_requests import CREATE, DELETE, VERSIONS, WITHOUT_AUTHORIZER, answers
from tests.gateway.serving import Serving


@pytest.mark.parametrize("version", VERSIONS)
def test_security_is_disabled(served: Serving, version: int) -> None:
    assert answers(served.client, version) == WITHOUT_AUTHORIZER


def test_as_many_answers_as_questions(served: Serving) -> None:
    assert served.ask(CREATE, 3, {"creations": []}).results == ()
    assert served.ask(DELETE, 3, {"filters": []}).filter_results == ()
