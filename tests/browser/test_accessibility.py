"""axe-core finds nothing serious in what opens on a page; every page as it is has its own test."""

from .conftest import search_for
from .test_every_page import read_through, serious_faults
from .test_pages import LESSONS


def test_open_search_and_open_drawer_have_no_serious_fault(open_context, site, axe):
    page = open_context(reduced_motion="reduce").new_page()
    page.goto(site + LESSONS[0])
    search_for(page, "thread")
    page.locator(".md-search-result__item").first.wait_for()
    assert serious_faults(page, axe) == []
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 360, "height": 740})
    page.locator("label[for=__drawer].md-header__button").click()
    page.wait_for_timeout(500)
    assert serious_faults(page, axe) == []


def test_what_opens_on_a_lesson_has_no_serious_fault(open_context, site, axe):
    """A guess before and after, the facts of a number, a fold, a stepped figure on its way, the dialog."""
    page = open_context(reduced_motion="reduce").new_page()
    page.goto(site + LESSONS[1])
    read_through(page)
    assert page.locator('.tw-guess[data-state="asked"]').count() == 1
    assert serious_faults(page, axe) == []
    page.locator(".tw-guess").get_by_role("slider").press("ArrowRight")
    page.get_by_role("button", name="Compare with the measurement").click()
    page.locator("article summary:visible").first.click()
    stepped = page.locator('.tw-figure[data-kind="stepped"]').first
    stepped.scroll_into_view_if_needed()
    stepped.get_by_role("slider").first.press("ArrowRight")
    number = page.locator("a.tw-number[data-provenance]:visible").first
    number.click()
    page.locator("#tw-provenance-box").wait_for()
    assert serious_faults(page, axe) == []
    page.keyboard.press("Escape")
    page.locator(".tw-feedback textarea").fill("A word.")
    page.locator(".tw-feedback [data-do=open]").click()
    page.locator("dialog.tw-dialog").wait_for()
    assert serious_faults(page, axe) == []
