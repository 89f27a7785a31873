"""Rows of records: searched, chosen by lesson, reachable without a script; points that say their names."""

import re

from playwright.sync_api import expect

KERNELS = "what-the-kernels-take/"
ALL = "measurements/"
ROOFLINE = "all-kernels/"
ROWS = "tbody tr:visible:not(.tw-group)"


def test_typing_leaves_the_kernels_that_have_every_word_and_clearing_brings_back_what_was_open(page, site):
    page.goto(site + KERNELS)
    place = page.locator("[data-search=kernels]")
    field = place.get_by_role("searchbox", name="Search kernels")
    assert place.locator("details[open]").count() == 0
    place.locator("summary").first.click()
    expect(place.locator("details[open]")).to_have_count(1)  # its rows are there, on a busy machine, too
    field.focus()
    page.keyboard.type("decode_tiles FORGET=1")
    expect(place.get_by_role("status")).to_have_text("1 match in 1 lesson")
    expect(place.locator(ROWS)).to_have_count(1)
    expect(place.locator(ROWS).first).to_contain_text("decode_tiles")
    expect(place.locator("details:visible")).to_have_count(1)
    field.fill("no such kernel")
    expect(place.get_by_role("status")).to_have_text("0 matches in 0 lessons")
    expect(place.locator("details:visible")).to_have_count(0)
    field.fill("")
    expect(place.get_by_role("status")).to_have_text("")
    expect(place.locator("details[open]")).to_have_count(1)
    assert place.locator("details:visible").count() > 30
    assert place.locator("details").first.get_attribute("open") is not None


def test_a_lesson_can_be_chosen_by_keyboard_and_narrows_the_search(page, site):
    page.goto(site + KERNELS)
    place = page.locator("[data-search=kernels]")
    select = place.get_by_label("Rows by lesson")
    select.select_option("FlashAttention: the forward pass")
    expect(place.locator("details:visible")).to_have_count(1)
    expect(place.locator(ROWS).nth(5)).to_be_visible()
    field = place.get_by_role("searchbox")
    field.press_sequentially("flash")
    expect(place.get_by_role("status")).to_have_text(re.compile(r"^[1-9]\d* matches in [1-9]\d* lessons$"))
    expect(select).to_have_value("")
    select.select_option("FlashAttention: the forward pass")
    expect(place.get_by_role("status")).to_have_text(re.compile(r"^[1-9]\d* match(es)? in 1 lesson$"))
    assert page.evaluate("document.documentElement.scrollHeight") < 8000


def test_the_measurements_show_one_lesson_until_a_search_goes_through_all(page, site):
    page.goto(site + ALL)
    place = page.locator("[data-search=measurements]")
    select = place.get_by_label("Rows by lesson")
    first = select.input_value()
    assert first
    assert place.locator("tbody[data-group]:visible").count() == 1
    field = place.get_by_role("searchbox", name="Search measurements")
    field.press_sequentially("attention_flash splits")
    expect(place.get_by_role("status").first).to_contain_text("in 1 lesson")
    expect(select).to_have_value("")
    rows = place.locator("tr[data-lesson]:visible")
    assert rows.count() > 3
    assert all("split" in text for text in rows.locator("th b").all_inner_texts())
    field.fill("")
    expect(select).to_have_value(first)
    assert place.locator("tbody[data-group]:visible").count() == 1


def test_without_a_script_every_kernel_is_a_fold_away(open_context, site):
    page = open_context(java_script_enabled=False).new_page()
    page.goto(site + KERNELS)
    place = page.locator("[data-search=kernels]")
    assert place.locator("input").count() == 0
    fold = place.locator("details", has_text="Decoding: split-KV")
    fold.locator("summary").click()
    fold.locator(".tw-later a").click()
    lesson = page.locator("section", has=page.locator("h2", has_text="Decoding: split-KV"))
    expect(lesson.get_by_text("decode_tiles").first).to_be_visible()
    expect(lesson).to_be_in_viewport()
    page.get_by_role("link", name="Back to the page").click()
    page.wait_for_url(site + KERNELS)
    folds = place.locator("details[data-group]")
    assert folds.count() > 30
    assert folds.filter(has=page.locator("tbody tr, .tw-later a[href]")).count() == folds.count()


def test_on_a_phone_field_and_choice_fit(open_context, site):
    page = open_context(viewport={"width": 360, "height": 740}).new_page()
    for where in (KERNELS, ALL):
        page.goto(site + where)
        for control in page.locator(".tw-search-in .tw-filters :is(input, select)").all():
            box = control.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 360


def test_a_point_under_the_roof_says_which_kernel_it_is_by_mouse_and_by_tap(open_context, page, site):
    phone = open_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True).new_page()
    for one in (page, phone):
        one.goto(site + ROOFLINE)
        one.locator(".tw-figure").first.scroll_into_view_if_needed()
        plot = one.locator(".tw-plot")
        plot.scroll_into_view_if_needed()
        point = plot.locator(".scatterlayer .trace").last.locator("path.point").first
        expect(point).to_be_visible()
        box = point.bounding_box()
        assert box is not None
        at = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        if one is page:
            one.mouse.move(*at)
        else:
            one.touchscreen.tap(*at)
        expect(plot.locator(".hoverlayer .hovertext")).to_contain_text("of the roof")
    assert page.locator(".tw-table", has_text="best kernel").first.locator("tbody tr").count() > 20
