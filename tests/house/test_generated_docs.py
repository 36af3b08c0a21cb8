"""The tables in docs/ match the code."""

import pytest

from muster.gateway.docs.generate import DOCS, generated_part, pages


@pytest.mark.parametrize("name", pages())
def test_a_page_says_what_the_code_says(name: str) -> None:
    page = (DOCS / name).read_text()
    assert generated_part(page) == pages()[name]().strip(), "run: python -m muster.gateway.docs.generate"
