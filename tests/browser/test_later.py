"""What is folded is fetched when it is wanted: opened, linked to, searched or printed."""

from playwright.sync_api import Locator, Page, expect

from .conftest import Faults

LESSON = "lessons/kernels/first_kernel/"
LINKED = "lessons/memory/coalescing_streaming/"
MEASURED = "lessons/matmul/hopper/"
ALL = "measurements/"
FILE = "folded.html"


def code_fold(page: Page) -> Locator:
    """The first fold of code that is not there yet."""
    return page.locator("article details.code:has(> .tw-later)").first


def asked(faults: Faults) -> int:
    return sum(FILE in url for url in faults.requests)


def test_a_fold_is_fetched_when_it_is_opened_once_for_the_page_and_its_code_can_be_copied(
    open_at, site, faults
):
    page = open_at(site + LESSON)
    page.wait_for_load_state("networkidle")
    assert asked(faults) == 0
    fold = code_fold(page).element_handle()
    page.locator("article details.code:has(> .tw-later)").first.locator("summary").click()
    page.wait_for_function("fold => fold.querySelector('pre')", arg=fold)
    code = fold.query_selector("pre > code")
    assert code is not None
    assert code.is_visible()
    button = fold.query_selector("pre .md-code__button[data-md-type=copy]")
    assert button is not None
    code.hover()
    button.click()
    copied = "async (text) => (await navigator.clipboard.readText()).trim() === text"
    page.wait_for_function(copied, arg=code.inner_text().strip())
    before = page.locator("article details:has(> .tw-later)").count()
    second = code_fold(page)
    second.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(page.locator("article details:has(> .tw-later)")).to_have_count(before - 1)
    assert asked(faults) == 1


def test_a_link_into_a_fold_fetches_and_shows_its_target(page, site):
    page.goto(site + LINKED)
    place = page.locator(".tw-later > span[id^=kernel-]").first
    name = place.get_attribute("id")
    page.goto("about:blank")
    page.goto(f"{site}{LINKED}#{name}")
    target = page.locator(f"details #{name}:not(.tw-later > *)")
    expect(target).to_be_visible()
    expect(target).to_be_in_viewport()
    assert page.locator(f"[id='{name}']").count() == 1
    fold = page.locator("article details[open]").first
    fold.evaluate("fold => fold.setAttribute('data-closed', '')")
    fold.locator("summary").first.click()
    code_fold(page).locator("summary").click()
    page.wait_for_timeout(400)
    expect(page.locator("[data-closed]")).to_have_js_property("open", False)


def test_search_in_the_page_and_print_find_everything(page, site, faults):
    page.goto(site + LESSON)
    assert page.locator("article .tw-later").count() > 5
    page.keyboard.press("Control+f")
    expect(page.locator("article .tw-later")).to_have_count(0)
    page.goto(site + ALL)
    page.pdf()
    assert page.locator("article .tw-later").count() == 0, "print did not wait"
    assert page.locator("article tr[data-lesson]").count() > 1000


def test_measured_rows_that_are_fetched_stay_covered_until_the_reader_has_guessed(page, site):
    page.goto(site + MEASURED)
    panel = page.locator(".tw-guess").first
    slider = panel.locator("input")
    slider.focus()
    page.keyboard.press("ArrowRight")
    chosen = panel.locator("output").text_content()
    fold = panel.locator("xpath=..").locator("details.tw-rows").first
    assert fold.locator(".tw-later").count() == 1
    fold.locator("summary").click()
    expect(fold.locator("[data-mark=measured]").first).to_be_attached()
    assert fold.locator("[data-mark=measured]").evaluate_all("all => all.every((one) => one.inert)")
    assert panel.locator("output").text_content() == chosen
    panel.locator("[data-do=compare]").click()
    assert fold.locator("[data-mark=measured]").evaluate_all("all => all.every((one) => !one.inert)")


def test_without_script_or_where_the_file_is_missing_a_link_leads_to_it(open_context, site):
    page = open_context(java_script_enabled=False).new_page()
    page.goto(site + LESSON)
    fold = page.locator("article details.code:has(> .tw-later)").first
    fold.locator("summary").click()
    link = fold.locator(".tw-later a")
    assert link.is_visible()
    name = (link.get_attribute("href") or "").partition("#")[2]
    link.click()
    assert page.locator(f"#{name} pre").first.is_visible()
    page.get_by_role("link", name="Back to the page").click()
    page.wait_for_url(site + LESSON)
    context = open_context()
    context.route(f"**/{FILE}", lambda route: route.abort())
    page = context.new_page()
    page.goto(site + LESSON)
    fold = page.locator("article details.code:has(> .tw-later)").first
    fold.locator("summary").click()
    expect(fold.locator(".tw-later a")).to_be_visible()
    context.unroute(f"**/{FILE}")
    fold.locator("summary").click()
    fold.locator("summary").click()
    expect(page.locator("article details.code[open] pre").first).to_be_visible()


def test_the_stylesheet_is_applied_once_also_after_instant_navigation(page, site):
    page.goto(site + LESSON)
    page.wait_for_load_state("networkidle")
    sheet = page.locator("head link[rel=stylesheet]")
    assert not (sheet.get_attribute("href") or "").startswith("http"), "Material wrote the address anew"
    page.evaluate("window.sheet = document.querySelector('head link[rel=stylesheet]').sheet")
    page.locator(".md-footer__link--next").click()
    expect(page.locator("article h1")).to_contain_text("Grids")
    assert page.evaluate("window.sheet === document.querySelector('head link[rel=stylesheet]').sheet")
