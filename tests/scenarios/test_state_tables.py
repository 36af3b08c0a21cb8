"""Every transition is shown by a scenario, and docs/group-coordinator.md agrees with the code."""

from tests.scenarios.state_tables import PAGE, legal_moves, moves, rendered


def test_every_legal_move_is_shown_and_no_other() -> None:
    assert set(moves()) == legal_moves()


def test_the_page_says_what_the_code_does() -> None:
    assert PAGE.read_text() == rendered(PAGE.read_text()), "run: python -m tests.scenarios docs"
