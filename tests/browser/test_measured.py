"""Recorded numbers and where they were taken, by mouse, keyboard and touch; tables that sort and filter."""

from itertools import pairwise

from playwright.sync_api import Locator, Page, expect

LESSON = "lessons/kernels/first_kernel/"
ALL = "measurements/"
OWN = "NVIDIA H100 80GB HBM3"
GRIDS = "Grids, blocks and threads in two and three dimensions"
SHOWN = "tr[data-lesson]:visible"
LESSONS = "select[aria-label='Rows by lesson']"


def attributes(rows: Locator, name: str) -> list[str | None]:
    """An attribute of many elements at once: one call for each takes a minute of a table's rows."""
    found: list[str | None] = rows.evaluate_all(
        "(all, name) => all.map((one) => one.getAttribute(name))", name
    )
    return found


def every_lesson(page: Page) -> None:
    """Show the rows of all lessons: the page begins with those of one."""
    page.get_by_label("Rows by lesson").first.select_option("")


def plain_button(page: Page, says: str) -> Locator:
    """A button above the first table; to look for it by its role takes many seconds among all rows."""
    return page.locator(".tw-filters button.tw-plain-button", has_text=says).first


def provenance_box(page: Page) -> None:
    box = page.locator(".tw-provenance-box")
    expect(box).to_be_visible()
    for label in ("device", "date", "SM clock", "versions", "spread"):
        expect(box.locator("dt", has_text=label).first).to_be_visible()
    expect(box.locator("a[data-record-file]")).to_be_visible()


def test_pointing_at_a_number_in_a_sentence_shows_where_it_was_born(page, site):
    page.goto(site + LESSON)
    number = page.locator("p a[data-provenance][data-spread]").first
    number.scroll_into_view_if_needed()
    number.hover()
    provenance_box(page)
    page.locator(".tw-provenance-box dt").first.hover()
    page.wait_for_timeout(500)
    provenance_box(page)
    page.mouse.move(5, 5)
    expect(page.locator(".tw-provenance-box")).to_be_hidden()


def test_by_keyboard_it_opens_on_focus_leads_to_the_record_and_escape_closes_it(page, site):
    page.goto(site + LESSON)
    number = page.locator("p a[data-provenance][data-spread]").first
    number.scroll_into_view_if_needed()
    number.evaluate("it => it.previousElementSibling?.focus?.()")
    page.keyboard.press("Tab")
    number.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    expect(number).to_be_focused()
    provenance_box(page)
    assert number.get_attribute("aria-describedby") == page.locator(".tw-provenance-box").get_attribute("id")
    page.keyboard.press("Tab")
    record = page.locator(".tw-provenance-box a[data-record-file]")
    expect(record).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".tw-provenance-box")).to_be_hidden()
    expect(number).to_be_focused()


def test_a_tap_opens_it_and_a_tap_elsewhere_closes_it(open_context, site):
    page = open_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True).new_page()
    page.goto(site + LESSON)
    number = page.locator("p a[data-provenance][data-spread]").first
    number.scroll_into_view_if_needed()
    number.tap()
    provenance_box(page)
    box = page.locator(".tw-provenance-box").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360
    assert "#provenance" not in page.url
    page.touchscreen.tap(180, 730)
    expect(page.locator(".tw-provenance-box")).to_be_hidden()


def test_without_scripts_a_number_leads_to_the_list_of_its_facts(open_context, site):
    page = open_context(java_script_enabled=False).new_page()
    page.goto(site + LESSON)
    for target in set(attributes(page.locator("a[data-provenance]"), "href")):
        assert target is not None
        assert page.locator(target).count() == 1
    page.goto(site + ALL)
    table = page.locator("table.tw-sortable").first
    rows = table.locator("tr[data-lesson]")
    assert all(row.is_visible() for row in rows.all()[::20])
    assert set(attributes(rows, "data-device")) >= {OWN, "NVIDIA H200"}
    assert page.locator(":is(.tw-sort, .tw-fold, .tw-filters)").count() == 0
    groups = table.locator("tbody[data-group]").count()
    others = table.locator("tr.tw-later a")
    assert others.count() == groups - 1 > 20
    others.last.click()
    assert page.locator("tr[data-lesson]").count() >= 2
    assert page.locator("tr[data-lesson]").first.is_visible()
    page.get_by_role("link", name="Back to the page").click()
    page.wait_for_url(site + ALL)


def test_headings_sort_by_number_with_empty_cells_last(page, site):
    page.goto(site + ALL)
    table = page.locator("table.tw-sortable").first
    expect(page.locator(LESSONS).first).not_to_have_value("")
    plain_button(page, "Open all lessons").click()
    expect(table.locator("tr.tw-later")).to_have_count(0, timeout=60_000)
    expect(page.locator(LESSONS).first).to_have_value("", timeout=60_000)
    assert len(set(attributes(table.locator(SHOWN), "data-lesson"))) > 20, "all lessons are open"
    head = table.locator("thead th", has_text="recorded").first
    grouped = table.locator(SHOWN).count()
    column = head.evaluate("it => it.cellIndex")

    def times() -> list[float | None]:
        return table.evaluate(
            "(it, at) => [...it.tBodies[0].rows].map((row) => row.cells[at].dataset.value ?? null)"
            ".map((value) => (value === null ? null : Number(value)))",
            column,
        )

    head.locator("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending", timeout=20_000)
    up = times()
    values = [value for value in up if value is not None]
    assert values == sorted(values)
    assert up[: len(values)] == values, "rows without a time stand last"
    head.locator("button").focus()
    page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-sort", "descending", timeout=20_000)
    down = times()
    assert down[: len(values)] == values[::-1]
    assert table.locator("th[aria-sort]").count() == 1
    assert len(set(attributes(table.locator(SHOWN), "data-lesson"))) > 5, "over all lessons"
    assert table.locator(".tw-group").count() == 0
    expect(table.locator(".tw-row-lesson").first).to_be_visible()
    plain_button(page, "Group by lesson").click()
    assert table.locator(SHOWN).count() == grouped
    assert table.locator("th[aria-sort]").count() == 0
    order = table.evaluate(
        "it => [...it.querySelectorAll('tr[data-lesson]')].map((row) => row.dataset.lesson)"
    )
    assert len([1 for one, other in pairwise(order) if one != other]) == len(set(order)) - 1


def test_a_heading_sorts_all_lessons_also_those_that_were_not_fetched(page, site):
    page.goto(site + ALL)
    table = page.locator("table.tw-sortable").first
    every_lesson(page)
    assert table.locator("tr.tw-later").count() > 20
    head = table.locator("thead th", has_text="recorded").first
    head.locator("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending", timeout=20_000)
    said = page.locator(".tw-filters:not(.tw-search) [role=status]").first.text_content() or ""
    assert said.startswith(f"{table.locator(SHOWN).count()} of {table.locator('tr[data-lesson]').count()}")
    assert len(set(attributes(table.locator(SHOWN), "data-lesson"))) > 20


def test_rows_can_be_chosen_by_lesson_and_device(page, site):
    page.goto(site + ALL)
    filters = page.locator(".tw-filters:not(.tw-search)").first
    every_lesson(page)
    table = page.locator("table.tw-sortable").first
    expect(filters.get_by_label("Rows by device")).to_have_value(OWN)
    said = filters.get_by_role("status").text_content() or ""
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert table.locator(".tw-later").count() == 0, "not all rows were fetched for print"
    every = table.locator("tr[data-lesson]").count()
    own = table.locator(f"tr[data-device='{OWN}']").count()
    assert said == f"{own} of {every} rows", "the page counted other rows than it has"
    page.reload()
    filters.get_by_label("Rows by lesson").select_option(GRIDS)
    shown = table.locator(SHOWN)
    expect(shown.first).to_be_visible()
    chosen = shown.count()
    assert 0 < chosen < own
    assert set(attributes(shown, "data-lesson")) == {GRIDS}
    assert table.locator(".tw-group:visible").count() == 1
    expect(filters.get_by_role("status")).to_have_text(f"{chosen} of {every} rows")
    expect(table.locator(".tw-group:visible small")).to_have_text(f"{chosen} rows")
    filters.get_by_label("Rows by device").select_option("NVIDIA H200")
    assert set(attributes(shown, "data-device")) == {"NVIDIA H200"}
    filters.get_by_label("Rows by lesson").select_option("")
    filters.get_by_label("Rows by device").select_option("")
    expect(filters.get_by_role("status")).to_have_text(f"{every} rows")


def test_on_paper_no_lesson_is_folded(page, site):
    page.goto(site + ALL)
    table = page.locator("table.tw-sortable").first
    every_lesson(page)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert table.locator(SHOWN).count() == table.locator(f"tr[data-device='{OWN}']").count()
    assert page.locator(".tw-all-rows").first.evaluate("it => it.scrollHeight - it.clientHeight") <= 1


def test_an_address_opens_the_lesson_of_its_experiment(page, site):
    wanted = "two_ways"
    page.goto(f"{site}{ALL}#{wanted}")
    row = page.locator(f"tr#{wanted}")
    expect(row).to_be_visible()
    expect(row).to_be_in_viewport()
    page.get_by_label("Rows by device").first.select_option("NVIDIA H200")
    expect(row).to_be_hidden()
    page.evaluate("location.hash = ''")
    page.evaluate("it => (location.hash = it)", wanted)
    expect(row).to_be_visible()


def test_on_a_phone_name_and_time_are_in_sight_and_names_stay_when_the_table_is_scrolled(open_context, site):
    page = open_context(viewport={"width": 360, "height": 900}).new_page()
    page.goto(site + ALL)
    box = page.locator(".tw-all-rows").first
    edges = "it => [it.getBoundingClientRect().left, it.getBoundingClientRect().right]"
    left, right = box.evaluate(edges)
    for row in page.locator(SHOWN).all()[:10]:
        name, time = row.locator("th").evaluate(edges), row.locator("td").first.evaluate(edges)
        assert left <= name[0] < name[1] <= time[0] + 1
        assert time[1] <= right + 1
    box.evaluate("it => (it.scrollLeft = it.scrollTop = 200)")
    assert page.locator(SHOWN).nth(9).locator("th").evaluate(edges)[0] == left
    head = page.locator(".tw-all-rows thead th").first.bounding_box()
    place = box.bounding_box()
    assert head is not None
    assert place is not None
    assert abs(head["x"] - place["x"]) <= 1
    assert abs(head["y"] - place["y"]) <= 1


def test_a_row_opens_its_facts_by_keyboard_and_leads_to_its_record(page, site):
    page.goto(site + ALL)
    row = page.locator(SHOWN).first
    row.locator("summary").focus()
    page.keyboard.press("Enter")
    for label in ("experiment", "record"):
        expect(row.locator("dt", has_text=label)).to_be_visible()
    assert page.request.get(row.locator("a[data-record-file]").evaluate("it => it.href")).ok
