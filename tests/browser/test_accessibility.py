"""axe-core finds nothing serious: every page, both themes, two widths, figures drawn and folds open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page

from tilewise.frontend import packages

from .conftest import ROOT, search_for
from .test_pages import LESSONS, by_share, read_through, share_of

SIZES = [(1440, 900), (360, 740)]
SCHEMES = ["default", "slate"]


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core's own script; npm fetches it the first time."""
    folder = packages(ROOT / "tests" / "browser" / "audits", ROOT)
    return (folder / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")


LEAVE_NEW_WORDS = """(known) => {
  for (const code of document.querySelectorAll(".highlight code")) {
    const kinds = [...code.querySelectorAll("span")].map((span) => span.className);
    if (kinds.every((kind) => known.includes(kind))) code.textContent = code.textContent;
    else known.push(...new Set(kinds));
  }
  return known;
}"""
"""Coloured words of code are most of a long page, and alike on all: known kinds become plain text."""


LEAVE_NEW_ROWS = """() => {
  const ids = [...document.querySelectorAll("article tbody [id], article tbody[id]")].map((one) => one.id);
  const kind = (one) => [one.localName, one.className, one.getAttribute("style"), one.getAttribute("role"),
    one.hasAttribute("href"), one.hasAttribute("hidden"), Boolean(one.textContent.trim())].join();
  for (const body of document.querySelectorAll("article tbody")) {
    const seen = {};
    for (const row of [...body.rows]) {
      const alike = [row, ...row.querySelectorAll("*")].map(kind).join(";") + row.checkVisibility();
      seen[alike] = (seen[alike] ?? 0) + 1;
      if (seen[alike] > 3) row.remove();
    }
  }
  return ids.filter((id, at) => ids.indexOf(id) < at);
}"""
"""Of a table's rows with the same elements, classes and styles, three are left: a page has up to a thousand.
Gives back the ids that rows had twice, which is all that one such row could do to another."""


def faults(page: Page, axe: str, only: list[str] | None = None) -> list[str]:
    """What axe calls serious or critical, one line for each element; by all its rules, or some."""
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate(axe)
    options = {"resultTypes": ["violations"], **({"runOnly": only} if only else {})}
    results: list[dict[str, Any]] = page.evaluate(
        "async (options) => (await axe.run(options)).violations", options
    )
    return [
        f"{found['id']}: {node['html'][:200]} {node['failureSummary'].splitlines()[-1].strip()[:160]}"
        for found in results
        if found["impact"] in ("serious", "critical")
        for node in found["nodes"]
    ]


def everything_shown(page: Page) -> None:
    """Read to the end, wait for the figures, open every fold."""
    read_through(page)
    for figure in page.locator(".tw-figure[data-figure]").all():
        figure.scroll_into_view_if_needed()
        page.wait_for_function("figure => figure.dataset.state === 'drawn'", arg=figure.element_handle())
    page.evaluate("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")


def in_every_look(page: Page, axe: str) -> dict[str, list[str]]:
    """What axe finds, by width and theme; the second theme changes nothing but colours."""
    found = {}
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        for scheme, only in zip(SCHEMES, [None, ["color-contrast"]], strict=True):
            page.evaluate("name => document.body.setAttribute('data-md-color-scheme', name)", scheme)
            page.wait_for_timeout(150)
            found[f"{width} {scheme}"] = faults(page, axe, only)
    return {look: lines for look, lines in found.items() if lines}


@by_share
def test_no_page_has_a_serious_fault_in_either_theme_at_either_width(
    open_context: Callable[..., BrowserContext], built: Path, site: str, axe: str, share: int
) -> None:
    """A kind of coloured word in code is looked at where it comes first."""
    context = open_context(reduced_motion="reduce")
    found = {}
    known: list[str] = []
    for address in share_of(built, share):
        page = context.new_page()
        page.goto(site + address)
        everything_shown(page)
        known = page.evaluate(LEAVE_NEW_WORDS, known)
        assert page.evaluate(LEAVE_NEW_ROWS) == [], address
        if looks := in_every_look(page, axe):
            found[address] = looks
        page.close()
    assert len(known) > 10
    assert found == {}


def test_open_search_and_open_drawer_have_no_serious_fault(
    open_context: Callable[..., BrowserContext], site: str, axe: str
) -> None:
    page = open_context(reduced_motion="reduce").new_page()
    page.goto(site + LESSONS[0])
    search_for(page, "thread")
    page.locator(".md-search-result__item").first.wait_for()
    assert faults(page, axe) == []
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 360, "height": 740})
    page.locator("label[for=__drawer].md-header__button").click()
    page.wait_for_timeout(500)
    assert faults(page, axe) == []


def test_a_fault_is_found_where_there_is_one(
    open_context: Callable[..., BrowserContext], site: str, axe: str
) -> None:
    page = open_context().new_page()
    page.goto(site + "conventions/")
    page.evaluate("document.querySelector('article').append(Object.assign(new Image(), {src: 'x.png'}))")
    assert any(line.startswith("image-alt") for line in faults(page, axe))


def test_what_opens_on_a_lesson_has_no_serious_fault(
    open_context: Callable[..., BrowserContext], site: str, axe: str
) -> None:
    """A guess before and after, the facts of a number, a fold, a stepped figure on its way, the dialog."""
    page = open_context(reduced_motion="reduce").new_page()
    page.goto(site + LESSONS[1])
    read_through(page)
    assert page.locator('.tw-guess[data-state="asked"]').count() == 1
    assert faults(page, axe) == []
    page.locator(".tw-guess").get_by_role("slider").press("ArrowRight")
    page.get_by_role("button", name="Compare with the recording").click()
    page.locator("article summary:visible").first.click()
    stepped = page.locator('.tw-figure[data-kind="stepped"]').first
    stepped.scroll_into_view_if_needed()
    stepped.get_by_role("slider").first.press("ArrowRight")
    number = page.locator("a.tw-number[data-born]:visible").first
    number.click()
    page.locator("#tw-born").wait_for()
    assert faults(page, axe) == []
    page.keyboard.press("Escape")
    page.locator(".tw-feedback textarea").fill("A word.")
    page.locator(".tw-feedback [data-do=open]").click()
    page.locator("dialog.tw-dialog").wait_for()
    assert faults(page, axe) == []
