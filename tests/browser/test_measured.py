"""Recorded numbers and where they were born, by mouse, keyboard and touch; tables that sort and filter."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect

LESSON = "lessons/kernels/first_kernel/"
ALL = "measurements/"


def born(page: Page) -> None:
    box = page.locator(".tw-born")
    expect(box).to_be_visible()
    for label in ("device", "date", "SM clock", "versions", "spread"):
        expect(box.locator("dt", has_text=label).first).to_be_visible()
    expect(box.locator("a[data-birth-file]")).to_be_visible()


def test_pointing_at_a_number_in_a_sentence_shows_where_it_was_born(page: Page, site: str) -> None:
    page.goto(site + LESSON)
    number = page.locator("p a[data-born][data-spread]").first
    number.scroll_into_view_if_needed()
    number.hover()
    born(page)
    page.locator(".tw-born dt").first.hover()
    page.wait_for_timeout(500)
    born(page)
    page.mouse.move(5, 5)
    expect(page.locator(".tw-born")).to_be_hidden()


def test_by_keyboard_it_opens_on_focus_leads_to_the_record_and_escape_closes_it(
    page: Page, site: str
) -> None:
    page.goto(site + LESSON)
    number = page.locator("p a[data-born][data-spread]").first
    number.scroll_into_view_if_needed()
    number.evaluate("it => it.previousElementSibling?.focus?.()")
    page.keyboard.press("Tab")
    number.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    expect(number).to_be_focused()
    born(page)
    assert number.get_attribute("aria-describedby") == page.locator(".tw-born").get_attribute("id")
    page.keyboard.press("Tab")
    record = page.locator(".tw-born a[data-birth-file]")
    expect(record).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".tw-born")).to_be_hidden()
    expect(number).to_be_focused()


def test_the_record_is_a_file_of_the_site(page: Page, site: str) -> None:
    page.goto(site + LESSON)
    number = page.locator(".tw-measurement > .tw-table td a[data-born]").first
    href = page.locator(f"#{number.get_attribute('data-born')} a[data-birth-file]").evaluate("it => it.href")
    found = page.request.get(href)
    assert found.ok
    assert found.json()["provenance"]["device"].startswith("NVIDIA")


def test_a_tap_opens_it_and_a_tap_elsewhere_closes_it(
    open_context: Callable[..., BrowserContext], site: str
) -> None:
    page = open_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True).new_page()
    page.goto(site + LESSON)
    number = page.locator("p a[data-born][data-spread]").first
    number.scroll_into_view_if_needed()
    number.tap()
    born(page)
    box = page.locator(".tw-born").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360
    assert "#born" not in page.url
    page.touchscreen.tap(180, 730)
    expect(page.locator(".tw-born")).to_be_hidden()


def test_without_scripts_a_number_leads_to_the_list_of_its_facts(
    open_context: Callable[..., BrowserContext], site: str
) -> None:
    page = open_context(java_script_enabled=False).new_page()
    page.goto(site + LESSON)
    for target in {one.get_attribute("href") for one in page.locator("a[data-born]").all()}:
        assert target is not None
        assert page.locator(target).count() == 1
    page.goto(site + ALL)
    assert page.locator("table.tw-sortable tbody tr").count() > 50
    assert page.locator(".tw-sort").count() == 0


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_headings_sort_by_number_with_empty_cells_last(page: Page, site: str, by: str) -> None:
    page.goto(site + ALL)
    table = page.locator("table.tw-sortable").first
    head = table.locator("th", has_text="recorded, µs").first
    column = head.evaluate("it => it.cellIndex")

    def press() -> list[float | None]:
        if by == "mouse":
            head.locator("button").click()
        else:
            head.locator("button").focus()
            page.keyboard.press("Enter")
        return table.evaluate(
            "(it, at) => [...it.tBodies[0].rows].map((row) => row.cells[at].dataset.value ?? null)"
            ".map((value) => (value === null ? null : Number(value)))",
            column,
        )

    up = press()
    values = [value for value in up if value is not None]
    assert head.get_attribute("aria-sort") == "ascending"
    assert values == sorted(values)
    assert up[: len(values)] == values, "rows without a time stand last"
    down = press()
    assert head.get_attribute("aria-sort") == "descending"
    assert down[: len(values)] == values[::-1]
    assert table.locator("th[aria-sort]").count() == 1


def test_rows_can_be_chosen_by_lesson_and_device(page: Page, site: str) -> None:
    page.goto(site + ALL)
    filters = page.locator(".tw-filters").first
    table = page.locator("table.tw-sortable").first
    every = table.locator("tbody tr").count()
    expect(filters.get_by_role("status")).to_have_text(f"{every} rows")
    filters.get_by_label("Rows by lesson").select_option("Grids with several axes")
    shown = table.locator("tbody tr:visible")
    chosen = shown.count()
    assert 0 < chosen < every
    assert {row.locator("td").first.inner_text() for row in shown.all()} == {"Grids with several axes"}
    expect(filters.get_by_role("status")).to_have_text(f"{chosen} of {every} rows")
    filters.get_by_label("Rows by device").select_option("NVIDIA H100 80GB HBM3")
    assert shown.count() <= chosen


@pytest.mark.parametrize("width", [360, 1220, 1440])
def test_the_wide_tables_scroll_by_themselves(
    open_context: Callable[..., BrowserContext], site: str, width: int
) -> None:
    page = open_context(viewport={"width": width, "height": 900}).new_page()
    page.goto(site + ALL)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
