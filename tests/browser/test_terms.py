"""Terms: a note on each use by hover, focus and tap; the list at a lesson's end; the glossary."""

from playwright.sync_api import Locator, Page, expect

from .conftest import search_for

GRIDS, SERIAL = "lessons/kernels/grids/", "lessons/kernels/serial_attention/"


def thread(page: Page) -> Locator:
    """A use, in the third lesson, of a term that the first one defines."""
    return page.locator("article p a.tw-term", has_text="thread").first


def test_a_note_says_what_a_term_means_on_hover_can_be_pointed_at_and_goes_on_escape(page, site):
    page.goto(site + SERIAL)
    note = page.locator(".tw-tip")
    term = thread(page)
    term.scroll_into_view_if_needed()
    page.wait_for_timeout(200)
    term.hover()
    expect(note).to_be_visible()
    text = note.inner_text()
    assert len(text) > 30 and text.endswith("Definition")
    note.hover()
    page.wait_for_timeout(400)
    expect(note).to_be_visible()
    page.keyboard.press("Escape")
    expect(note).to_be_hidden()
    term.hover()
    expect(note).to_be_visible()
    page.mouse.move(5, 5)
    expect(note).to_be_hidden()


def test_a_note_opens_on_focus_and_belongs_to_the_term(page, site):
    page.goto(site + SERIAL)
    page.locator("article .tw-meta a").first.focus()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('a.tw-term')"):
            break
    note = page.locator(".tw-tip")
    expect(note).to_be_visible()
    assert page.evaluate("document.activeElement.getAttribute('aria-describedby')") == note.get_attribute(
        "id"
    )
    page.keyboard.press("Tab")
    described = page.evaluate("document.querySelectorAll('[aria-describedby=tw-tip]').length")
    assert described <= 1


def test_a_first_tap_shows_the_note_and_a_second_follows_the_link(open_context, site):
    page = open_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True).new_page()
    page.goto(site + SERIAL)
    page.wait_for_load_state("networkidle")
    term, note = thread(page), page.locator(".tw-tip")
    term.tap()
    expect(note).to_be_visible()
    assert page.url == site + SERIAL
    box = note.bounding_box()
    assert box and box["x"] >= 0 and box["x"] + box["width"] <= 360
    page.locator("article h1").tap()
    expect(note).to_be_hidden()
    term.tap()
    term.tap()
    page.wait_for_url("**/first_kernel/#term-thread")
    expect(page.locator("details:has(#term-thread)")).to_have_js_property("open", True)


def test_a_search_hit_inside_a_fold_opens_it(page, site):
    page.goto(site + GRIDS)
    search_for(page, "row-major")
    page.locator(".md-search-result__link[href*='grids']").first.wait_for()
    page.locator(".md-search-result__link[href*='grids']").first.click()
    marked = page.locator("article mark[data-md-highlight]").first
    expect(marked).to_be_visible()
