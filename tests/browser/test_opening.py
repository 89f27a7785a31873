"""Opening a page does no work that nobody sees: nothing is moved or restyled, listings wait to be seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from .test_pages import LESSONS


@pytest.mark.sweep("src/tilewise/web", "tests/browser/conftest.py")
@pytest.mark.parametrize("width", [1440, 360])
def test_hardly_a_heading_breaks_otherwise_when_its_face_arrives(
    open_context: Callable[..., BrowserContext], site: str, built: Path, width: int
) -> None:
    page = open_context(viewport={"width": width, "height": 900}).new_page()
    page.goto(site)
    stands_in = "['Georgia', 'Times'].map((name) => document.fonts.load(`600 1em 'Tilewise ${name}'`))"
    if page.evaluate(f"Promise.any({stands_in}).then((found) => found.length === 0, () => true)"):
        pytest.skip("no face that stands in for the text's is installed")
    held: list[Route] = []
    seen, moved = 0, []
    page.route("**/*.woff2", lambda route: held.append(route))  # noqa: PLW0108 - Playwright marks what it is given
    lines = "[...document.querySelectorAll('article :is(h1, h2)')].map((one) => [one.id, one.offsetHeight])"
    for lesson in sorted((built / "lessons").glob("*/*/index.html")):
        page.goto(f"{site}{lesson.parent.relative_to(built).as_posix()}/", wait_until="domcontentloaded")
        page.wait_for_function("getComputedStyle(document.querySelector('article h1')).fontWeight === '600'")
        before = page.evaluate(lines)
        face = page.evaluate_handle("({ come: document.fonts.load('600 1em \"Tilewise Text\"') })")
        page.wait_for_timeout(50)
        assert held, "no face was asked for"
        while held:
            held.pop().continue_()
        face.evaluate("(face) => face.come")
        seen += len(before)
        moved += [one[0] for one, then in zip(page.evaluate(lines), before, strict=True) if one != then]
    assert len(moved) <= seen / 25, moved


def test_listings_get_their_button_when_they_come_near(page: Page, site: str) -> None:
    page.goto(site + LESSONS[1])
    page.wait_for_function("window.document$")
    listings = page.locator("article pre")
    expect(listings.last.locator(".md-code__button")).to_have_count(0)
    shown = page.locator("article .tw-kernel:visible pre").first
    shown.scroll_into_view_if_needed()
    expect(shown.locator(".md-code__button")).to_have_count(1)


def test_the_browser_is_told_of_the_theme_without_a_second_meta_element(page: Page, site: str) -> None:
    page.goto(site + LESSONS[0])
    page.wait_for_function("window.document$")
    assert page.locator("meta[name=color-scheme]").count() == 1
    scheme = "getComputedStyle(document.documentElement).colorScheme"
    assert page.evaluate(scheme) != "dark"
    switch = page.locator("form[data-md-component=palette] label:visible")
    switch.click()
    page.wait_for_function(f"{scheme} === 'dark'")
    page.wait_for_function("document.adoptedStyleSheets.length === 0")
    switch.click()
    page.wait_for_function(f"{scheme} !== 'dark'")


def test_a_switch_of_the_theme_fades_nothing(page: Page, site: str) -> None:
    page.goto(site + LESSONS[0])
    page.wait_for_function("window.document$")
    page.evaluate(
        """() => {
            window.started = 0;
            document.addEventListener("transitionrun", (event) => {
                if (event.propertyName.includes("color")) window.started += 1;
            });
        }"""
    )
    page.evaluate("document.querySelectorAll('form[data-md-component=palette] input')[1].click()")
    page.wait_for_function("document.body.dataset.mdColorScheme === 'slate'")
    page.wait_for_timeout(300)
    assert page.evaluate("window.started") == 0


def test_tables_are_not_moved_by_the_themes_script(page: Page, site: str) -> None:
    page.add_init_script(
        """new MutationObserver((records) => {
            for (const record of records)
                for (const node of record.addedNodes)
                    if (node.className === "md-typeset__scrollwrap" && window.document$) window.moved = true;
        }).observe(document, { childList: true, subtree: true });"""
    )
    page.goto(site + LESSONS[1])
    page.wait_for_function("window.document$")
    page.wait_for_timeout(300)
    assert page.locator("article .md-typeset__scrollwrap > .md-typeset__table > table.tw-plain").count() >= 1
    assert page.evaluate("window.moved") is None
