"""Progress through the course: marked by the reader, shown where lessons are listed, cleared by a click."""

import re

from playwright.sync_api import Page, expect

GRIDS = "lessons/kernels/grids/"


def kept(page: Page) -> object:
    return page.evaluate("JSON.parse(localStorage.getItem('tilewise:read'))")


def test_a_lesson_is_marked_at_its_end_and_shown_on_the_front_page(page, site):
    page.goto(site + GRIDS)
    button = page.locator(".tw-finish button")
    assert kept(page) is None
    button.press("Enter")
    expect(button).to_have_attribute("aria-pressed", "true")
    assert list(kept(page) or {}) == ["kernels/grids"]
    page.goto(site)
    expect(page.locator(".tw-lessons a.tw-done")).to_have_text(re.compile(r"Grids.* \(read\)$"))
    line = page.locator(".tw-progress")
    expect(line).to_contain_text(f"1 of {page.locator('.tw-map li a').count()} ")
    line.get_by_role("button", name="Clear my progress").click()
    expect(line).to_have_count(0)
    expect(page.locator(".tw-done")).to_have_count(0)
    assert kept(page) is None


def test_the_mark_can_be_taken_back_and_follows_instant_navigation(page, site):
    page.goto(site + GRIDS)
    button = page.locator(".tw-finish button")
    button.click()
    page.locator(".md-footer__link--next").click()
    expect(page.locator("article h1")).to_contain_text("Puzzles")
    expect(button).to_have_text("Mark this lesson as read")
    page.locator(".md-footer__link--prev").click()
    expect(page.locator("article h1")).to_contain_text("Grids")
    expect(button).to_have_text("Read")
    button.click()
    assert kept(page) is None
