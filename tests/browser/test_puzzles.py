"""Pages of puzzles: hints and solutions stay folded, without scripts too, and a phone shows tables whole."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import BrowserContext, Page

PUZZLES = "lessons/memory/puzzles/"


def test_a_phone_shows_the_tables_of_puzzles_whole(page: Page, site: str) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(site + PUZZLES)
    page.wait_for_function("document.querySelector('.puzzle .md-typeset__table')")
    tables = page.locator(".puzzle .tw-table")
    assert tables.count() >= 4
    wide = "found => found.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.innerText)"
    assert tables.evaluate_all(wide) == []


def test_hints_and_solutions_are_folded_without_scripts(
    open_context: Callable[..., BrowserContext], site: str
) -> None:
    page = open_context(java_script_enabled=False).new_page()
    page.goto(site + PUZZLES)
    for puzzle in page.locator(".exercise.puzzle").all():
        assert puzzle.locator("details.hint").count() >= 3
        assert puzzle.locator("details[open]").count() == 0
        solution = puzzle.locator("details.answer .highlight")
        assert not solution.is_visible()
        puzzle.locator("details.answer > summary").click()
        assert solution.is_visible()
