"""Jumps within a page leave it as the reader has set it, and the way back works."""

from playwright.sync_api import expect

FIRST = "lessons/kernels/first_kernel/"


def test_the_first_jump_within_a_page_neither_fetches_it_again_nor_closes_folds(page, site, faults):
    page.goto(site + FIRST)
    page.wait_for_load_state("networkidle")
    fold = page.locator("article details.definition").first
    fold.locator("summary").click()
    before = len(faults.requests)
    page.locator(".md-sidebar--primary a[href$='#takeaways']").first.click()
    page.wait_for_url("**/#takeaways")
    expect(page.locator("#takeaways")).to_be_in_viewport()
    page.wait_for_timeout(400)
    page.go_back()
    page.wait_for_url(site + FIRST)
    page.wait_for_function("scrollY < 1500")
    expect(fold).to_have_js_property("open", True)
    asked = [url for url in faults.requests[before:] if not url.endswith("favicon.svg")]
    assert asked == []


def test_after_a_jump_other_pages_still_open_at_once_and_back_returns(page, site):
    page.goto(site + FIRST)
    page.wait_for_load_state("networkidle")
    page.evaluate("window.stillHere = true")
    page.locator(".md-sidebar--primary a[href$='#takeaways']").first.click()
    page.locator(".md-footer__link--next").click()
    expect(page.locator("article h1")).to_contain_text("Grids")
    page.go_back()
    expect(page.locator("article h1")).to_contain_text("first CUDA kernel")
    assert page.evaluate("window.stillHere"), "the page was loaded anew"


def test_the_next_page_has_an_address_of_its_own_without_a_heading_of_the_page_before(page, site):
    page.goto(site + FIRST)
    page.wait_for_load_state("networkidle")
    page.locator(".md-footer__link--next").scroll_into_view_if_needed()
    page.locator(".md-footer__link--next").click()
    expect(page.locator("article h1")).to_contain_text("Grids")
    page.wait_for_timeout(1200)  # what would scroll, or name a heading, has done so
    page.wait_for_function("scrollY === 0")
    page.wait_for_url(f"{site}lessons/kernels/grids/")
