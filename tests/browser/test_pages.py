"""Every page opens cleanly: no error, no other host, nothing wider than a phone, little to fetch."""

import gzip

from playwright.sync_api import Response, expect

from .conftest import search_for

LESSONS = ["lessons/kernels/first_kernel/", "lessons/kernels/grids/", "lessons/kernels/serial_attention/"]
FIRST_VISIT_BYTES = 180_000
"""What it takes and a fifth more: the one budget of bytes, for page, styles, scripts and fonts."""


def test_a_first_visit_fetches_little_before_a_figure_comes_near(page, site):
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))  # noqa: PLW0108 - Playwright marks what it is given
    page.goto(site + LESSONS[1])
    page.wait_for_load_state("networkidle")
    bodies = {answer.url.removeprefix(site): answer.body() for answer in answers}
    sizes = {name: min(len(body), len(gzip.compress(body, 9))) for name, body in bodies.items()}
    late = ("figures.js", "plotly.js", "assets/figures/")
    first = {name: size for name, size in sizes.items() if not any(part in name for part in late)}
    assert sum(first.values()) <= FIRST_VISIT_BYTES, first
    assert not [name for name in sizes if "search" in name]


def test_search_is_fetched_when_the_field_is_used_and_then_finds(page, site, faults):
    page.goto(site + LESSONS[0])
    page.wait_for_load_state("networkidle")
    assert not [url for url in faults.requests if "search_index" in url or "workers/search" in url]
    search_for(page, "thread")
    page.locator(".md-search-result__item").first.wait_for()
    assert [url for url in faults.requests if "search_index" in url]
    assert page.locator(".md-search-result__item").count() >= 2


def test_a_missing_page_shows_the_way(built, page, site):
    assert (built / "404.html").is_file()
    page.goto(site + "404.html")
    assert page.locator("article h1").inner_text() == "No page here"
    assert page.locator("article a").first.is_visible()


def test_back_to_top_covers_no_link_of_the_footer(page, site):
    page.goto(site + LESSONS[1])
    page.evaluate("window.scrollTo({ top: document.documentElement.scrollHeight, behavior: 'instant' })")
    page.mouse.move(720, 400)
    top, following = page.locator(".md-top"), page.locator(".md-footer__link--next")
    page.wait_for_timeout(500)
    page.mouse.wheel(0, -40)  # the button is there once a reader scrolls up
    expect(top).not_to_have_attribute("hidden", "")
    button, link = top.bounding_box(), following.bounding_box()
    assert button and link
    assert button["height"] < 60
    assert button["y"] + button["height"] <= link["y"]
    following.click(trial=True, timeout=2000)
    top.click()
    page.wait_for_function("scrollY === 0")


def test_contents_follow_and_fold_also_by_keyboard(page, site):
    page.goto(site + LESSONS[0])
    contents = page.locator(".md-sidebar--primary .tw-contents")
    links = contents.get_by_role("link")
    headings = page.locator("article > h2").evaluate_all("(all) => all.map((one) => '#' + one.id)")
    assert headings
    assert set(headings) <= set(links.evaluate_all("(all) => all.map((one) => one.hash)"))
    page.locator("article > h2").nth(2).scroll_into_view_if_needed()
    page.mouse.wheel(0, 500)
    expect(contents.locator(".md-nav__link--active")).to_have_count(1)
    contents.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(links.first).to_be_hidden()
    page.keyboard.press("Enter")
    expect(links.first).to_be_visible()


def test_in_a_phones_drawer_the_contents_are_whole(open_context, site):
    page = open_context(viewport={"width": 360, "height": 500}, reduced_motion="reduce").new_page()
    page.goto(site + LESSONS[0])
    page.locator("label[for=__drawer].md-header__button").click()
    page.locator("label[for=__toc].md-nav__link").click()
    expect(page.locator(".tw-contents > summary")).to_be_hidden()
    last = page.locator(".tw-contents").get_by_role("link").last
    place = last.evaluate("(link) => link.hash")
    last.click()  # scrolls to it, and closes the drawer
    expect(page).to_have_url(site + LESSONS[0] + place)
    expect(last).to_have_count(0)  # nobody steps through what is closed


def test_the_front_pages_first_screen_has_the_ladder_and_a_kernel_that_runs(page, site):
    page.goto(site)
    run = page.locator(".tw-hero-figure .tw-try")
    expect(run.get_by_label("block", exact=True)).to_be_in_viewport(ratio=1)
    expect(run.locator(".tw-try-warp li").first).to_be_in_viewport(ratio=1)
    expect(page.locator(".tw-ladder-axis")).to_be_in_viewport(ratio=1)
    expect(page.locator(".tw-ladder-library b")).to_be_in_viewport(ratio=1)


def test_a_phones_first_screen_has_a_kernel_whose_sectors_and_hazard_move(open_context, site):
    page = open_context(viewport={"width": 390, "height": 844}).new_page()
    page.goto(site)
    run = page.locator(".tw-hero-figure .tw-try")
    for what in ("kernel", "block"):
        expect(run.get_by_label(what, exact=True)).to_be_in_viewport(ratio=1)
    first = run.locator(".tw-try-warp li").first
    expect(first).to_be_in_viewport(ratio=1)
    expect(first).to_have_text("line 5 loads from a: 8 lanes, 1 sector")
    run.get_by_label("block as a number").fill("32")
    expect(first).to_have_text("line 5 loads from a: 20 lanes, 3 sectors")
    assert first.locator(".tw-try-lanes .tw-try-used").count() == 20
    run.get_by_label("kernel").select_option("1")
    expect(run.locator(".tw-hazard")).to_contain_text("a has 20 elements")
    expect(run.locator(".tw-hazard")).to_be_in_viewport(ratio=1)
    expect(run.locator(".tw-run")).to_be_hidden()


def test_a_phones_visitor_finds_the_ladders_shape_below(open_context, site):
    page = open_context(viewport={"width": 390, "height": 844}).new_page()
    page.goto(site)
    sketch = page.locator(".tw-ladder-sketch").first
    expect(sketch).to_contain_text("times faster")
    heights = sketch.locator("i").evaluate_all(
        "(bars) => bars.map((bar) => bar.getBoundingClientRect().height)"
    )
    assert heights == sorted(heights) and heights[0] > 2
    sketch.click()
    expect(page.locator(".tw-ladder .tw-figure-title").first).to_be_in_viewport()


def test_the_front_page_has_margins_and_no_scrolling_sideways_at_any_width(page, site):
    page.goto(site)
    for width in (360, 390, 800, 1100, 1240, 1440, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        edges = page.evaluate(
            "[...document.querySelectorAll('article h1, .tw-ladder b, .tw-map a')].flatMap((part) => {"
            " const box = part.getBoundingClientRect(); return [box.left, box.right]; })"
        )
        assert min(edges) >= 12, width
        assert max(edges) <= width - 12, width
        bars = page.evaluate("[...document.querySelectorAll('.tw-ladder-bar')].map((bar) => bar.offsetWidth)")
        assert min(bars) > 90, width
        rates = page.evaluate(
            "[...document.querySelectorAll('.tw-ladder b')].map((rate) => rate.getBoundingClientRect().right)"
        )
        figure = page.locator(".tw-hero-figure").bounding_box()
        assert figure is not None
        assert max(rates) <= (figure["x"] if figure["x"] > 100 else width), width


def test_pages_about_the_course_are_folded_in_the_navigation(page, site):
    page.goto(site + LESSONS[0])
    links = page.locator(".md-sidebar--primary a:visible")
    for name in ("How we measure", "Questions", "Licences"):
        expect(links.filter(has_text=name)).to_have_count(0)
    page.locator(".md-sidebar--primary label", has_text="Measurements").first.click()
    expect(links.filter(has_text="How we measure")).to_have_count(1)
