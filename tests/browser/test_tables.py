"""Tables of words on a phone: nothing that a row leads to is out of sight, and no name is cut within."""

from __future__ import annotations

from playwright.sync_api import Page


def test_a_phone_stacks_the_columns_from_symptom_to_lesson(page: Page, site: str) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(f"{site}from-symptom-to-lesson/")
    lasts = page.locator(".tw-stack td:last-child a")
    assert lasts.count() > 20
    boxes = lasts.evaluate_all("all => all.map(one => one.getBoundingClientRect().right)")
    assert max(boxes) <= 360
    page.set_viewport_size({"width": 1440, "height": 900})
    tops = (
        page.locator(".tw-stack tbody tr")
        .first.locator("td")
        .evaluate_all("all => all.map(one => one.getBoundingClientRect().top)")
    )
    assert len(set(tops)) == 1, "beside each other where there is room"
